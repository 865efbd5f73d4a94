"""Users of a running node: logins, permissions with RabbitMQ's codes and texts, changes with immediate effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from penstock.control.control import Refusal
from tests.broker import Broker
from tests.raw import Channel, Client, Closed
from tests.router.making import rabbit_hash

pytestmark = pytest.mark.broker

MIB = 1 << 20
Open = Callable[..., Client]


class Account:
    """A user with a vhost; the password is "secret"."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.user = f"u-{uuid4().hex[:8]}"
        self.vhost = f"v-{uuid4().hex[:8]}"
        broker.call("user_add", name=self.user, password_hash=rabbit_hash("secret"), tags=[])
        broker.call("vhost_add", name=self.vhost)
        self.allow(".*", ".*", ".*")

    def allow(self, configure: str, write: str, read: str) -> None:
        self.broker.call(
            "permission_set", user=self.user, vhost=self.vhost, configure=configure, write=write, read=read
        )

    def login(self, connect: Open, **options: object) -> Client:
        return connect(**{"user": self.user, "password": "secret", "vhost": self.vhost, **options})

    def text(self, what: str) -> str:
        return f"ACCESS_REFUSED - {what} in vhost '{self.vhost}' refused for user '{self.user}'"


@pytest.fixture
def account(broker: Broker) -> Iterator[Account]:
    account = Account(broker)
    yield account
    for command, name in (("user_delete", account.user), ("vhost_delete", account.vhost)):
        with suppress(Refusal):  # deleted by the test
            broker.call(command, name=name)


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_login(account: Account, connect: Open, mechanism: str) -> None:
    client = account.login(connect, mechanism=mechanism)
    assert client.channel().call("queue.declare", exclusive=True).queue
    for wrong in ({"password": "Secret"}, {"password": ""}, {"user": "nobody"}):
        with pytest.raises(Closed) as refused:
            account.login(connect, mechanism=mechanism, **wrong)
        assert refused.value.code == 403
        assert refused.value.text == (
            f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
            "For details see the broker logfile."
        )


def test_a_password_that_was_set_by_command(broker: Broker, account: Account, connect: Open) -> None:
    """A changed password, hashed with argon2 and verified beside the loop, counts at once; open connections stay."""
    before = account.login(connect)
    changed = broker.penstock("user", "password", account.user, given="a new one\n")
    assert (changed.returncode, changed.stderr) == (0, "")
    for _ in range(4):
        account.login(connect, password="a new one")
    with pytest.raises(Closed):
        account.login(connect)
    assert before.channel().number == 1


@pytest.mark.usefixtures("penstock_only")
def test_memory_for_a_verification_goes_back_to_the_kernel(tmp_path: Path) -> None:
    """A login takes an acceptor's memory for buffers of its own, but not the 19 MiB in which argon2 computes."""
    with Broker(tmp_path) as own:
        (acceptor,) = map(psutil.Process, own.children("acceptor"))
        before = acceptor.memory_full_info().uss
        with Client.connect(own.address) as client:
            client.channel()
        assert acceptor.memory_full_info().uss - before < 10 * MIB


def test_vhosts_need_permissions(broker: Broker, account: Account, connect: Open) -> None:
    with pytest.raises(Closed) as refused:
        account.login(connect, vhost="/")
    assert (refused.value.code, refused.value.text) == (
        530,
        f"NOT_ALLOWED - access to vhost '/' refused for user '{account.user}'",
    )
    assert (refused.value.event.class_id, refused.value.event.method_id) == (10, 40)
    account.allow("", "", "")
    client = account.login(connect)
    broker.call("permission_delete", user=account.user, vhost=account.vhost)
    channel = client.channel()
    channel.send("queue.declare", queue="q")
    assert channel.closed().text == account.text("configure access to queue 'q'")
    with pytest.raises(Closed):
        account.login(connect)


@pytest.fixture
def limited(account: Account, connect: Open) -> Client:
    """A client that may configure names beginning with c, write to those with w in them and read those with r."""
    owner = account.login(connect).channel()
    for name in ("c", "w", "r", "wr", "crw", "none"):
        owner.call("queue.declare", queue=name)
        owner.call("exchange.declare", exchange=name, type="direct")
    account.allow("^c", "w", "r")
    return account.login(connect)


@pytest.mark.parametrize(
    ("method", "arguments", "what"),
    [
        ("queue.declare", {"queue": "none"}, "configure access to queue 'none'"),
        ("queue.declare", {"queue": "new"}, "configure access to queue 'new'"),
        ("queue.declare", {"queue": "none", "passive": True}, "access to queue 'none'"),
        ("queue.declare", {"queue": "c", "passive": True}, ""),
        ("queue.declare", {"queue": "c"}, ""),
        ("queue.declare", {"queue": "c1", "arguments": {"x-dead-letter-exchange": "w"}}, "read access to queue 'c1'"),
        (
            "queue.declare",
            {"queue": "cr", "arguments": {"x-dead-letter-exchange": "n"}},
            "write access to exchange 'n'",
        ),
        ("queue.declare", {"queue": "cr", "arguments": {"x-dead-letter-exchange": "w"}}, ""),
        ("queue.delete", {"queue": "wr"}, "configure access to queue 'wr'"),
        ("queue.delete", {"queue": "c"}, ""),
        ("queue.purge", {"queue": "c"}, "read access to queue 'c'"),
        ("queue.purge", {"queue": "r"}, ""),
        ("queue.bind", {"queue": "r", "exchange": "r"}, "write access to queue 'r'"),
        ("queue.bind", {"queue": "w", "exchange": "w"}, "read access to exchange 'w'"),
        ("queue.bind", {"queue": "w", "exchange": "r"}, ""),
        ("queue.unbind", {"queue": "r", "exchange": "r"}, "write access to queue 'r'"),
        ("queue.unbind", {"queue": "w", "exchange": "r"}, ""),
        ("exchange.declare", {"exchange": "none", "type": "direct"}, "configure access to exchange 'none'"),
        ("exchange.declare", {"exchange": "none", "type": "direct", "passive": True}, "access to exchange 'none'"),
        ("exchange.declare", {"exchange": "c", "type": "direct"}, ""),
        (
            "exchange.declare",
            {"exchange": "cn", "type": "direct", "arguments": {"alternate-exchange": "w"}},
            "read access to exchange 'cn'",
        ),
        (
            "exchange.declare",
            {"exchange": "cr", "type": "direct", "arguments": {"alternate-exchange": "n"}},
            "write access to exchange 'n'",
        ),
        ("exchange.delete", {"exchange": "w"}, "configure access to exchange 'w'"),
        ("exchange.delete", {"exchange": "c"}, ""),
        ("exchange.bind", {"destination": "c", "source": "r"}, "write access to exchange 'c'"),
        ("exchange.bind", {"destination": "", "source": "r"}, "write access to exchange 'amq.default'"),
        ("exchange.bind", {"destination": "w", "source": "c"}, "read access to exchange 'c'"),
        ("exchange.bind", {"destination": "w", "source": "r"}, ""),
        ("exchange.unbind", {"destination": "c", "source": "r"}, "write access to exchange 'c'"),
        ("basic.consume", {"queue": "w"}, "read access to queue 'w'"),
        ("basic.consume", {"queue": "r"}, ""),
        ("basic.get", {"queue": "w"}, "read access to queue 'w'"),
        ("basic.get", {"queue": "missing"}, "access to queue 'missing'"),
    ],
)
def test_permissions(account: Account, limited: Client, method: str, arguments: dict[str, object], what: str) -> None:
    channel = limited.channel()
    if not what:
        channel.call(method, **arguments)
        return
    channel.send(method, **arguments)
    closed = channel.closed()
    assert closed.code == 403
    assert closed.text.endswith(account.text(what).removeprefix("ACCESS_REFUSED - "))
    assert closed.text.startswith("ACCESS_REFUSED - ")
    assert limited.channel().number  # the connection still works


def test_a_name_of_the_server_needs_permission_too(account: Account, limited: Client) -> None:
    channel = limited.channel()
    channel.send("queue.declare")
    closed = channel.closed()
    assert closed.text.startswith("ACCESS_REFUSED - configure access to queue 'amq.gen-")
    account.allow("^amq\\.gen-[\\w-]{22}$", "", "")
    assert limited.channel().call("queue.declare").queue.startswith("amq.gen-")


@pytest.mark.parametrize(
    ("exchange", "code", "text"),
    [
        ("", 403, "write access to exchange 'amq.default'"),
        ("c", 403, "write access to exchange 'c'"),
        ("missing", 403, "write access to exchange 'missing'"),
        ("wissing", 404, "no exchange 'wissing'"),
    ],
)
def test_publishing(limited: Client, exchange: str, code: int, text: str) -> None:
    channel = limited.channel()
    channel.publish(b"x", "r", exchange)
    closed = channel.closed()
    assert closed.code == code and text in closed.text
    assert (closed.event.class_id, closed.event.method_id) == (60, 40)


def test_a_cached_route_is_for_one_user(account: Account, limited: Client, connect: Open) -> None:
    """Routes cached for guest's publishes do not serve users without the permission."""
    account.broker.call("permission_set", user="guest", vhost=account.vhost, configure=".*", write=".*", read=".*")
    others = [connect(vhost=account.vhost).channel() for _ in range(4)]  # on both acceptors, most likely
    for _ in range(3):
        for other in others:
            other.call("confirm.select")
            other.publish(b"x", "c")
            other.take("basic.ack")
        channel = limited.channel()
        channel.publish(b"x", "c")
        assert channel.closed().text == account.text("write access to exchange 'amq.default'")
    assert others[0].depth("c") == 12


def test_changed_permissions_apply_to_the_next_operation(account: Account, connect: Open) -> None:
    channel = account.login(connect).channel()
    channel.call("queue.declare", queue="q")
    channel.call("confirm.select")
    channel.publish(b"x", "q")
    channel.take("basic.ack")
    account.allow(".*", "^$", ".*")
    channel.publish(b"x", "q")
    assert channel.closed().text == account.text("write access to exchange 'amq.default'")
    account.allow(".*", ".*", ".*")
    channel = channel.client.channel()
    channel.call("confirm.select")
    channel.publish(b"x", "q")
    channel.take("basic.ack")


def test_topic_permissions(account: Account, connect: Open) -> None:
    call = account.broker.call
    channel = account.login(connect).channel()
    channel.call("queue.declare", queue="q")
    whose = {"user": account.user, "vhost": account.vhost}
    call("topic_permission_set", **whose, exchange="amq.topic", write="^{username}\\.", read="^news\\.")
    channel.call("queue.bind", queue="q", exchange="amq.topic", routing_key="news.#")
    channel.call("confirm.select")
    channel.publish(b"x", f"{account.user}.a", "amq.topic")
    channel.take("basic.ack")
    channel.publish(b"x", "news.a", "amq.direct")  # topic exchanges only
    channel.take("basic.ack")
    channel.publish(b"x", "news.a", "amq.topic")
    assert channel.closed().text == (
        f"ACCESS_REFUSED - write access to topic 'news.a' in exchange 'amq.topic' in vhost '{account.vhost}' "
        f"refused for user '{account.user}'"
    )
    channel = channel.client.channel()
    channel.send("queue.bind", queue="q", exchange="amq.topic", routing_key="#")
    assert channel.closed().text == (
        f"ACCESS_REFUSED - read access to topic '#' in exchange 'amq.topic' in vhost '{account.vhost}' "
        f"refused for user '{account.user}'"
    )
    call("topic_permission_delete", **whose, exchange=None)
    channel.client.channel().call("queue.bind", queue="q", exchange="amq.topic", routing_key="#")


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_topic_permissions_hold_for_further_routing_keys(account: Account, connect: Open, header: str) -> None:
    whose = {"user": account.user, "vhost": account.vhost}
    account.broker.call("topic_permission_set", **whose, exchange="amq.topic", write="^mine\\.", read=".*")
    channel = account.login(connect).channel()
    channel.call("queue.declare", queue="q")
    channel.call("queue.bind", queue="q", exchange="amq.topic", routing_key="#")
    channel.call("confirm.select")
    channel.publish(b"x", "mine.a", "amq.topic", headers={header: ["mine.b", "mine.c"]})
    channel.take("basic.ack")
    channel.publish(b"x", "mine.a", "amq.direct", headers={header: ["news.a"]})  # topic exchanges only
    channel.take("basic.ack")
    channel.publish(b"x", "mine.a", "amq.topic", headers={header: ["mine.b", "news.a"]})
    assert channel.closed().text == account.text("write access to topic 'news.a' in exchange 'amq.topic'")
    assert account.login(connect).channel().depth("q") == 1


def test_topic_permissions_hold_for_dead_letter_routing_keys(account: Account, connect: Open) -> None:
    """The keys that a user declares are checked, even for an exchange that does not exist yet."""
    client = account.login(connect)
    for exchange in ("amq.topic", "later"):
        whose = {"user": account.user, "vhost": account.vhost, "exchange": exchange}
        account.broker.call("topic_permission_set", **whose, write="^mine\\.", read=".*")
        dead = {"x-dead-letter-exchange": exchange}
        channel = client.channel()
        channel.call("queue.declare", queue="", arguments=dead)  # dead letters keep their keys
        channel.call("queue.declare", queue="", arguments={**dead, "x-dead-letter-routing-key": "mine.a"})
        channel.send("queue.declare", queue="q", arguments={**dead, "x-dead-letter-routing-key": "news.a"})
        closed = channel.closed()
        assert (closed.code, closed.text) == (
            403, account.text(f"write access to topic 'news.a' in exchange '{exchange}'"),
        )  # fmt: skip
    direct = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "news.a"}
    client.channel().call("queue.declare", queue="q", arguments=direct)


def test_the_name_of_a_reply_consumer_is_the_right_to_answer(account: Account, connect: Open) -> None:
    """Any user who knows the name may answer, even from another vhost."""
    asking = connect().channel()
    asking.call("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
    asks = connect().channel()
    requests = asks.call("queue.declare", exclusive=True).queue
    asks.call("basic.consume", queue=requests, no_ack=True)
    asking.publish(b"request", requests, reply_to="amq.rabbitmq.reply-to")
    request = asks.take("basic.deliver")
    answering = account.login(connect).channel()
    answering.publish(b"answer", request.properties["reply_to"])
    assert asking.take("basic.deliver").body == b"answer"


def test_an_impersonator_may_publish_for_others(account: Account, connect: Open) -> None:
    channel = account.login(connect).channel()
    channel.call("queue.declare", queue="q")
    account.broker.call("user_set", name=account.user, password_hash=None, tags=["impersonator"])
    channel.call("confirm.select")
    channel.publish(b"x", "q", user_id="somebody")
    channel.take("basic.ack")
    account.broker.call("user_set", name=account.user, password_hash=None, tags=[])
    channel.publish(b"x", "q", user_id="somebody")
    closed = channel.closed()
    assert (closed.code, closed.text) == (
        406,
        f"PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was '{account.user}'",
    )


def test_a_deleted_users_connections_are_closed(account: Account, connect: Open, channel: Channel) -> None:
    clients = [account.login(connect) for _ in range(4)]
    account.broker.call("user_delete", name=account.user)
    for client in clients:
        closed = client.ended()
        assert isinstance(closed, Closed)
        assert (closed.code, closed.text) == (320, f"CONNECTION_FORCED - user '{account.user}' is deleted")
    assert channel.call("queue.declare", exclusive=True).queue
    with pytest.raises(Closed):
        account.login(connect)


def test_accounts_survive_a_restart(tmp_path: Path) -> None:
    """Accounts survive, and the deleted default vhost and user do not come back."""
    with Broker(tmp_path) as broker:
        account = Account(broker)
        broker.call("vhost_delete", name="/")
        broker.call("user_delete", name="guest")
        broker.stop()
        broker.start()
        with Client.connect(broker.address, user=account.user, password="secret", vhost=account.vhost) as client:
            assert client.channel().call("queue.declare", exclusive=True).queue
        with pytest.raises(Closed):
            Client.connect(broker.address)
        assert [vhost["name"] for vhost in broker.call("vhost_list")] == [account.vhost]
    assert (tmp_path / "data" / "topology.sqlite").stat().st_mode & 0o077 == 0


def test_commands(broker: Broker, account: Account, connect: Open, tmp_path: Path) -> None:
    name = f"u-{uuid4().hex[:8]}"
    added = broker.penstock("user", "add", name, "--tag", "management", given="pass word\n")
    assert (added.returncode, added.stdout, added.stderr) == (0, f"user '{name}' added\n", "")
    again = broker.penstock("user", "add", name, given="x\n")
    assert (again.returncode, again.stderr) == (2, f"penstock: there is a user '{name}' already\n")
    nothing = broker.penstock("user", "add", "other")
    assert (nothing.returncode, nothing.stderr) == (
        2,
        "penstock: a password is expected on standard input, and it cannot be empty\n",
    )
    allowed = broker.penstock("permission", "set", name, "^a", "", ".*", "--vhost", account.vhost)
    assert allowed.returncode == 0
    wrong = broker.penstock("permission", "set", name, "(", "", "")
    assert (wrong.returncode, wrong.stderr) == (2, "penstock: '(' is not a regular expression: missing ): (\n")
    listed = json.loads(broker.penstock("permission", "list", "--user", name, "--json").stdout)
    assert listed == [{"user": name, "vhost": account.vhost, "configure": "^a", "write": "", "read": ".*"}]
    connect(user=name, password="pass word", vhost=account.vhost)
    assert name in broker.penstock("user", "list").stdout
    assert broker.penstock("user", "delete", name).returncode == 0
    assert name not in broker.penstock("user", "list").stdout


def test_import_of_rabbitmqs_definitions(broker: Broker, account: Account, connect: Open, tmp_path: Path) -> None:
    name = f"imported-{uuid4().hex[:8]}"
    file = tmp_path / "definitions.json"
    definitions = {
        "rabbit_version": "3.10.8",
        "users": [
            {
                "name": name,
                "password_hash": rabbit_hash("from rabbit", "sha512").removeprefix("sha512:"),
                "hashing_algorithm": "rabbit_password_hashing_sha512",
                "tags": ["administrator"],
                "limits": {},
            }
        ],
        "vhosts": [{"name": account.vhost, "limits": []}],
        "permissions": [{"user": name, "vhost": account.vhost, "configure": ".*", "write": ".*", "read": ".*"}],
        "queues": [],
    }
    file.write_text(json.dumps(definitions))
    imported = broker.penstock("user", "import", str(file))
    assert (imported.stdout, imported.stderr) == (
        "imported 1 vhost, 1 user, 1 permission\n",
        "",
    )
    connect(user=name, password="from rabbit", vhost=account.vhost)
    broker.call("user_delete", name=name)
