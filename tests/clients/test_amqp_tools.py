"""The command-line tools of rabbitmq-c (Debian's amqp-tools)."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.outcomes import wait_depth, wait_get
from tests.raw import Address, Channel
from tests.waiting import PATIENCE

pytestmark = pytest.mark.broker


class Tools:
    """The tools, run against one broker."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def run(self, tool: str, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """Run `amqp-TOOL`; return its standard output. AssertionError if its exit code is not `code`."""
        command = [f"amqp-{tool}", "-s", self.address.host, "--port", str(self.address.port), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == code, f"{command}: exit {done.returncode}: {done.stderr}"
        return done.stdout


@pytest.fixture
def tools(address: Address) -> Tools:
    for tool in ("publish", "consume", "get", "declare-queue", "delete-queue"):
        if not shutil.which(f"amqp-{tool}"):
            pytest.skip(f"amqp-{tool} is not installed")
    return Tools(address)


def test_declare_publish_get_delete(tools: Tools, channel: Channel, queue: str) -> None:
    assert tools.run("declare-queue", "-q", queue).strip() == queue
    tools.run("publish", "-r", queue, "-b", "by option", "-C", "text/plain", "-p")
    wait_depth(channel, queue, 1)  # there is no order between connections to two acceptors
    tools.run("publish", "-r", queue, stdin="by standard input")
    wait_depth(channel, queue, 2)
    tools.run("publish", "-r", queue, "--line-buffered", stdin="line 1\nline 2\n")
    wait_depth(channel, queue, 4)
    assert tools.run("get", "-q", queue) == "by option"
    assert tools.run("get", "-q", queue) == "by standard input"
    assert tools.run("delete-queue", "-q", queue).strip() == "2"
    tools.run("get", "-q", queue, code=1)


def test_get_of_an_empty_queue(tools: Tools, queue: str) -> None:
    tools.run("declare-queue", "-d", "-q", queue)
    tools.run("get", "-q", queue, code=2)


def test_consume(tools: Tools, channel: Channel, queue: str) -> None:
    """Each message goes to the standard input of a command, and is acknowledged when the command has succeeded."""
    channel.call("queue.declare", queue=queue)
    for number in range(5):
        channel.publish(b"message %d\n" % number, queue)
    assert tools.run("consume", "-q", queue, "-c", "4", "-p", "1", "cat") == "".join(
        f"message {number}\n" for number in range(4)
    )
    assert wait_get(channel, queue).body == b"message 4\n"
    assert channel.get(queue) is None


def test_consume_through_an_exchange(tools: Tools, address: Address, channel: Channel) -> None:
    """The tool declares an exclusive queue and binds it; a returned message shows that it is not bound yet."""
    command = ["amqp-consume", "-s", address.host, "--port", str(address.port)]
    command += ["-e", "amq.topic", "-r", "tools.#", "-c", "1", "cat"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        while True:
            channel.publish(b"through the exchange", "tools.test", "amq.topic", mandatory=True)
            channel.call("queue.declare", exclusive=True)
            if not any(event.name == "basic.return" for event in channel.pending()):
                break
            channel.take("basic.return")
        output, _ = consumer.communicate(timeout=PATIENCE)
    assert output == "through the exchange"
    assert consumer.returncode == 0
