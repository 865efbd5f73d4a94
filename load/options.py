"""What a load run can be told: Locust arguments, each also an environment variable `LOAD_…` and a field of the UI."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from load.payload import HEAD_SIZE
from load.target import Target

if TYPE_CHECKING:  # importing locust replaces the sockets of the whole process, which only Locust's own may do
    from locust.argument_parser import LocustArgumentParser

YesNo = Literal["yes", "no"]
QUEUE_NAME_MAX = 200


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """One field per argument (see `add_arguments` for their meaning), checked."""

    queue: str
    size: int
    batch: int
    publish_rate: float
    confirm: YesNo
    consumers: int
    consumer_rate: float
    prefetch: int
    stop_count: int
    resume_count: int
    messages: int
    verify: YesNo
    drain_seconds: float
    max_depth: int
    max_resume_seconds: float
    max_end_to_end_ms: float
    min_fairness: float

    @classmethod
    def of(cls, parsed: Any) -> LoadOptions:
        """From Locust's parsed options. ValueError names what cannot be."""
        options = cls(**{field.name: getattr(parsed, field.name) for field in fields(cls)})
        wrong = (
            (not options.queue or len(options.queue) > QUEUE_NAME_MAX, "--queue needs a name, not a longer one"),
            (options.size < HEAD_SIZE, f"--size must be at least {HEAD_SIZE}: a message carries time and sequence"),
            (options.batch < 1, "--batch must be at least 1"),
            (options.prefetch < 1 or options.prefetch > 65535, "--prefetch must be from 1 to 65535"),
            (options.resume_count > options.stop_count, "--resume-count must not be above --stop-count"),
            (
                options.verify == "yes" and options.confirm == "no",
                "--verify yes needs --confirm yes: what is not confirmed may be lost",
            ),
            (
                options.max_resume_seconds > 0 and not options.stop_count,
                "--max-resume-seconds needs --stop-count and --resume-count",
            ),
        )  # fmt: skip
        for is_wrong, text in wrong:
            if is_wrong:
                raise ValueError(text)
        return options

    @property
    def queue_arguments(self) -> dict[str, int]:
        """Arguments of queue.declare: the marks, in Qpid's names. Brokers that do not know them ignore them."""
        if not self.stop_count:
            return {}
        return {"qpid.flow_stop_count": self.stop_count, "qpid.flow_resume_count": self.resume_count}


def add_arguments(parser: LocustArgumentParser) -> None:
    """Declare the arguments to Locust. 0 in a limit or a rate is none."""
    group = parser.add_argument_group("AMQP load", "Where: --host amqp://user:password@host:port/vhost")

    def add(name: str, default: object, text: str, **more: Any) -> None:
        flag = name.replace("_", "-")
        kind = more.pop("type", type(default))
        group.add_argument(f"--{flag}", env_var=f"LOAD_{name.upper()}", type=kind, default=default, help=text, **more)

    add("queue", "load", "queue that all users share; emptied at the start, deleted at the end")
    add("size", 256, "bytes of a body")
    add("batch", 100, "messages a publisher writes at once, and with --confirm waits for")
    add("publish_rate", 0.0, "messages a second of one publisher; 0 is flat out")
    add("confirm", "yes", "publishers wait for confirms of a batch before the next one", choices=("yes", "no"))
    add("consumers", 1, "how many of the users consume")
    add("consumer_rate", 0.0, "messages a second of one consumer; 0 is as many as come")
    add("prefetch", 200, "unacknowledged messages a consumer may have")
    add("stop_count", 0, "declare the queue with this stop mark, in messages; 0 leaves it to the broker")
    add("resume_count", 0, "its resume mark, in messages")
    add("messages", 0, "end the run when so many were received, if its time is not over before")
    add(
        "verify",
        "yes",
        "at the end empty the queue and count what was lost, doubled or out of order",
        choices=("yes", "no"),
    )
    add("drain_seconds", 30.0, "longest time to empty the queue at the end")
    add("max_depth", 0, "fail if the queue was ever seen deeper, in messages (stop mark and overshoot)")
    add(
        "max_resume_seconds", 0.0, "fail if a publisher was stopped that long while the queue was under its resume mark"
    )
    add("max_end_to_end_ms", 0.0, "fail if the 99th percentile of end-to-end latency is above")
    add("min_fairness", 0.0, "fail if Jain's index of what publishers published is below (1 is equal shares)")


def target_of(host: str | None) -> Target:
    """The broker of Locust's --host."""
    return Target.parse(host or "amqp://127.0.0.1")
