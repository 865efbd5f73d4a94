"""Recordings of system calls: what the kernel writes, and a recording of a real process."""

from __future__ import annotations

import os
import threading

import pytest

from load.ftrace import TRACEFS, Call, Sleep, parse, recording

LINES = """
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
         python3-31191   [000] .....  1727.926345: sys_clock_nanosleep -> 0x0
 stream executio-31170   [001] .....  1727.926471: sys_sendto(fd: 3, buff: 0x7f11f7951f70, len: 1, flags: 0, addr: 0)
         python3-31191   [000] .....  1727.926480: sys_recvfrom(fd: 4, ubuf: 0x7f11f6d96c90, size: 0xa, flags: 0)
 stream executio-31170   [001] .....  1727.926501: sys_sendto -> 0x1
 stream executio-31170   [001] d..2.  1727.926528: sched_switch: prev_comm=stream executio prev_pid=31170 prev_prio=120 prev_state=R ==> next_comm=python3 next_pid=31236 next_prio=120
         python3-31191   [000] d..2.  1727.926547: sched_switch: prev_comm=python3 prev_pid=31191 prev_prio=120 prev_state=S ==> next_comm=a next_pid=31180 next_prio=120
         python3-31191   [000] .....  1728.000001: sys_recvfrom -> 0xfffffffffffffff5
""".splitlines()  # noqa: E501  as the kernel writes them


def test_calls_are_those_with_both_ends_and_sleeps_those_that_wait() -> None:
    calls, sleeps = parse(LINES)
    assert calls == [
        Call(31170, "sendto", 1727926471, 1727926501, 1),
        Call(31191, "recvfrom", 1727926480, 1728000001, -11),
    ]
    assert sleeps == [Sleep(31191, 1727926547)]


@pytest.mark.skipif(os.geteuid() != 0 or not TRACEFS.exists(), reason="only root records, where there is a tracefs")
def test_a_process_is_recorded_and_its_recording_goes() -> None:
    reading, writing = os.pipe()
    with recording([threading.get_native_id()]) as recorded:
        os.write(writing, b"four")
        os.read(reading, 100)
        calls, _ = parse(recorded.end())
    assert [(call.name, call.result) for call in calls if call.result == 4] == [("write", 4), ("read", 4)]
    assert not list((TRACEFS / "instances").glob(f"penstock-{os.getpid()}*"))
