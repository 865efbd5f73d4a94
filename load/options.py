"""The options of a load run: Locust arguments, each also an environment variable `LOAD_…` and a field of the UI."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from load.payload import HEAD_SIZE
from load.scenarios import SCENARIOS
from load.target import Target

if TYPE_CHECKING:  # importing locust replaces the sockets of the whole process, which only Locust's own may do
    from locust.argument_parser import LocustArgumentParser

YesNo = Literal["yes", "no"]
QUEUE_NAME_MAX = 200
SUBSCRIBERS_MAX = 100

PATTERNS = ("work-queue", "bursty", "slow-consumer", "churn", "pub-sub", "rpc", "celery")
"""The names of `load.users.PATTERNS`, which is not imported here, as that would import Locust."""
PATTERN_HELP = f"{', '.join(PATTERNS)}; separate several with commas"
SCENARIO_HELP = ", ".join(SCENARIOS)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that a run is judged by, one field per argument (see `add_arguments` for their meaning); 0 is none."""

    max_depth: int = 0
    max_resume_seconds: float = 0.0
    max_end_to_end_ms: float = 0.0
    min_fairness: float = 0.0
    min_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The validated options, one field per argument (see `add_arguments` for their meaning) that is no bound."""

    pattern: str
    scenario: str
    queue: str
    size: int
    batch: int
    publish_rate: float
    confirm: YesNo
    burst: int
    pause_seconds: float
    consumers: int
    consumer_rate: float
    slow_rate: float
    subscribers: int
    slow_subscribers: int
    call_seconds: float
    task_ms: float
    prefetch: int
    stop_count: int
    resume_count: int
    messages: int
    verify: YesNo
    drain_seconds: float
    bounds: Bounds

    @classmethod
    def of(cls, parsed: Any) -> LoadOptions:
        """Take the options from Locust's parsed ones. ValueError says which of them are impossible."""
        bounds = Bounds(**{name: getattr(parsed, name) for name in BOUNDS})
        options = cls(**{name: getattr(parsed, name) for name in ARGUMENTS - BOUNDS}, bounds=bounds)
        wrong = (
            (not set(options.patterns) <= set(PATTERNS), f"--pattern must be of {PATTERN_HELP}"),
            (options.scenario not in SCENARIOS, f"--scenario must be one of {SCENARIO_HELP}"),
            (
                not options.queue or len(options.queue) > QUEUE_NAME_MAX,
                f"--queue needs a name of at most {QUEUE_NAME_MAX} characters",
            ),
            (options.size < HEAD_SIZE, f"--size must be at least {HEAD_SIZE}: a message carries time and sequence"),
            (options.batch < 1, "--batch must be at least 1"),
            (options.prefetch < 1 or options.prefetch > 65535, "--prefetch must be from 1 to 65535"),
            (options.burst < 1, "--burst must be at least 1"),
            (options.consumers < 0, "--consumers must not be negative"),
            (
                not 1 <= options.subscribers <= SUBSCRIBERS_MAX,
                f"--subscribers must be from 1 to {SUBSCRIBERS_MAX}",
            ),
            (
                not 0 <= options.slow_subscribers <= options.subscribers,
                "--slow-subscribers must not be more than --subscribers",
            ),
            (options.slow_rate <= 0, "--slow-rate must be above 0"),
            (options.call_seconds <= 0, "--call-seconds must be above 0"),
            (options.resume_count > options.stop_count, "--resume-count must not be above --stop-count"),
            (
                options.verify == "yes" and options.confirm == "no",
                "--verify yes needs --confirm yes: an unconfirmed message may be lost",
            ),
            (
                options.bounds.max_resume_seconds > 0 and not options.stop_count,
                "--max-resume-seconds needs --stop-count and --resume-count",
            ),
        )  # fmt: skip
        for is_wrong, text in wrong:
            if is_wrong:
                raise ValueError(text)
        return options

    @property
    def patterns(self) -> list[str]:
        """The names of the chosen patterns."""
        return self.pattern.split(",")

    @property
    def queue_arguments(self) -> dict[str, int]:
        """The marks as arguments of queue.declare, by Qpid's names. Brokers that do not know them ignore them."""
        if not self.stop_count:
            return {}
        return {"qpid.flow_stop_count": self.stop_count, "qpid.flow_resume_count": self.resume_count}


BOUNDS = {field.name for field in fields(Bounds)}
ARGUMENTS = BOUNDS | {field.name for field in fields(LoadOptions)} - {"bounds"}
"""The names of all arguments; `BOUNDS` are those of the bounds."""


def add_arguments(parser: LocustArgumentParser) -> None:
    """Declare the arguments to Locust. A limit or rate of 0 means none."""
    group = parser.add_argument_group("AMQP load", "Where: --host amqp://user:password@host:port/vhost")

    def add(name: str, default: object, text: str, **more: Any) -> None:
        flag = name.replace("_", "-")
        in_ui = more.pop("in_ui", True)
        action = group.add_argument(
            f"--{flag}", env_var=f"LOAD_{name.upper()}", type=type(default), default=default, help=text, **more
        )
        action.include_in_web_ui = in_ui  # Locust sets it only outside of groups

    # the user classes and their numbers over time are settled before the UI exists
    add("pattern", "work-queue", "what the users do: " + PATTERN_HELP, in_ui=False)
    add("scenario", "constant", "how the number of users changes over -t: " + SCENARIO_HELP, in_ui=False)
    add("queue", "load", "name of the queue, and prefix of other names; emptied at the start, deleted at the end")
    add("size", 256, "bytes of a body")
    add("batch", 100, "messages a publisher writes at once, and with --confirm waits for")
    add("publish_rate", 0.0, "messages a second of one publisher; 0 is flat out")
    add("confirm", "yes", "publishers wait for the confirms of a batch before the next one", choices=("yes", "no"))
    add("burst", 1000, "messages of a burst (bursty)")
    add("pause_seconds", 2.0, "time between two bursts (bursty)")
    add("consumers", 1, "number of consumers, of each kind but subscribers")
    add("consumer_rate", 0.0, "messages a second of one consumer; 0 is no limit")
    add("slow_rate", 100.0, "messages a second of one slow consumer or subscriber")
    add("subscribers", 3, "number of subscribers, each with a queue (pub-sub)")
    add("slow_subscribers", 0, "number of them that are slow")
    add("call_seconds", 60.0, "an answer that takes longer is a failure (rpc)")
    add("task_ms", 2.0, "time a worker takes for a task (celery)")
    add("prefetch", 200, "unacknowledged messages a consumer may have")
    add("stop_count", 0, "declare the queues with this stop mark, in messages; 0 leaves it to the broker")
    add("resume_count", 0, "their resume mark, in messages")
    add("messages", 0, "end the run early once this many messages were received; 0 is never")
    add(
        "verify",
        "yes",
        "at the end, empty the queues and count messages lost, duplicated or out of order",
        choices=("yes", "no"),
    )
    add("drain_seconds", 30.0, "longest time to empty a queue at the end")
    add("max_depth", 0, "fail if a queue was ever seen deeper, in messages (stop mark and overshoot)")
    add(
        "max_resume_seconds",
        0.0,
        "fail if a publisher was stopped longer than this while all its queues were at or under their resume mark",
    )
    add("max_end_to_end_ms", 0.0, "fail if the 99th percentile of end-to-end latency is above this")
    add("min_fairness", 0.0, "fail if Jain's index of the publishers' shares is below this (1 is equal shares)")
    add("min_rate", 0.0, "fail if fewer messages a second were received, over the whole run")


def target_of(host: str | None) -> Target:
    """Return the broker of Locust's --host."""
    return Target.parse(host or "amqp://127.0.0.1")
