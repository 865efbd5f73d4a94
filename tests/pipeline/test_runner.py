"""Jobs end, or fail in one line within a limit, even if Java is stuck."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline.errors import PipelineError
from pipeline.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
STUCK = """
import sys, time
from pipeline.errors import PipelineError
from pipeline.runner import Runner
from pipeline.session import open_session

spark = open_session("stuck", "local[1]")
try:
    with Runner(spark, limit_s=0.5, grace_s=0.5) as runner:
        waiting = runner.submit("another", lambda: spark._jvm.java.lang.Thread.sleep(10**9))
        time.sleep(float(sys.argv[1]))
        runner.run("a job", lambda: spark._jvm.java.lang.Thread.sleep(10**9))
except PipelineError as error:
    print(error)
    sys.exit(2)
"""

RESET = """
import socket, struct, sys, threading
from py4j.java_gateway import GatewayClient
from pipeline.runner import silence_py4j

def reset():
    connection, _ = server.accept()
    connection.recv(100)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()

server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=reset).start()
if sys.argv[1] == "silent":
    silence_py4j()
print(GatewayClient(port=server.getsockname()[1]).send_command("command"))
"""


def endless(spark: SparkSession) -> None:
    spark.range(1 << 60).agg(F.max(F.hash("id"))).first()


def test_a_job_over_its_limit_is_one_line_and_others_go_on(spark: SparkSession) -> None:
    with Runner(spark, limit_s=1.0) as runner, Runner(spark) as other:
        with pytest.raises(PipelineError, match=r"^a sum: not done within 1.0 s, see --job-limit$"):
            runner.run("a sum", partial(endless, spark))
        assert other.run("another", spark.range(5).count) == 5


def test_at_its_end_running_jobs_are_cancelled(spark: SparkSession) -> None:
    begun = threading.Event()

    def job() -> None:
        begun.set()
        endless(spark)

    with Runner(spark) as runner:
        future = runner.submit("a sum", job)
        begun.wait()
    assert future.done()
    assert spark.range(5).count() == 5


def test_an_error_of_a_job_is_raised_as_it_is(spark: SparkSession) -> None:
    def job() -> None:
        raise KeyError("x")

    with Runner(spark) as runner, pytest.raises(KeyError):
        runner.run("a job", job)


def run(program: str, argument: str) -> subprocess.CompletedProcess[str]:
    """Run a program in Python."""
    return subprocess.run(
        [sys.executable, "-c", program, argument],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(("how", "logged"), [("loud", True), ("silent", False)])
def test_py4j_can_be_kept_from_logging_a_connection_that_is_reset(how: str, logged: bool) -> None:
    done = run(RESET, how)
    assert done.returncode == 0 and len(done.stdout) == 2  # py4j's code for an error
    assert ("ConnectionResetError" in done.stderr) == ("Traceback" in done.stderr) == logged


@pytest.mark.slow
@pytest.mark.parametrize("later", [0, 0.6])
def test_java_that_is_stuck_is_ended(later: float) -> None:
    """A second job begins at the same time, or so late that Java is ended before that job's own limit."""
    done = run(STUCK, str(later))
    assert done.stdout in (f"{name}: not done within 0.5 s, see --job-limit\n" for name in ("a job", "another"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Py4J" not in done.stderr
