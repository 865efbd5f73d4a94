"""One run in the process that judges it (the only process, or the master): observe, conclude, report."""

from __future__ import annotations

import csv
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from locust.env import Environment
from pika import exceptions

from load import probe, report
from load.counters import Tally
from load.figures import rows, table
from load.options import LoadOptions, target_of
from load.session import Session
from load.target import without_password
from load.topology import Destination, Topology, topology_of
from load.verdict import Finding, Observed, judge

MESSAGES_SECONDS = 0.1

log = logging.getLogger("load")


class Run:
    """A run from the start of the test. `unacked` has the destinations of the users, and how many messages of one queue
    there its consumers may have unacked; `roles` has the role of each publisher class.
    """

    def __init__(
        self,
        environment: Environment,
        tally: Tally,
        unacked: Mapping[Destination, int],
        roles: Mapping[str, str],
    ) -> None:
        self.options = LoadOptions.of(environment.parsed_options)
        self.findings: list[Finding] = []
        self.all_answered = True
        self._environment = environment
        self._tally = tally
        self._roles = roles
        self._target = target_of(environment.host)
        topologies = {topology_of(destination, self.options): most for destination, most in unacked.items()}
        self._topologies = sorted(topologies, key=lambda topology: topology.name)
        self._unacked = {queue: most for topology, most in topologies.items() for queue in topology.queues}
        self.depth = probe.DepthProbe(self._target, list(self._unacked))
        self._ended = threading.Event()

    def begin(self) -> None:
        """Declare and purge the queues, and begin to observe them."""
        try:
            session = Session(self._target, "load setup")
            for topology in self._topologies:
                topology.declare(session, self.options.queue_arguments)
                topology.purge(session)
            session.close()
        except (exceptions.AMQPError, OSError) as error:
            log.error("%s cannot be used: %r", self._target, error)
        self.depth.start()
        if self.options.messages:
            threading.Thread(target=self._end_after, daemon=True).start()

    def end(self) -> None:
        """Stop observing."""
        self._ended.set()
        self.depth.stop()

    def _end_after(self) -> None:
        """End the test once enough messages were received. Runs in a thread, which under Locust is a greenlet."""
        runner = self._environment.runner
        while runner is not None and not self._ended.is_set():
            if self._tally.sums["received"] >= self.options.messages:
                (runner.stop if self._environment.web_ui else runner.quit)()
                return
            time.sleep(MESSAGES_SECONDS)

    def conclude(self) -> bool:
        """Empty the queues, judge the run, and report on the terminal and in the files that Locust wrote; return
        whether it was good.
        """
        stats = self._environment.stats
        failures = stats.total.num_failures + self._clear()
        if not self.all_answered:
            log.error("a worker did not answer, its counts are missing")
            failures += 1
        latencies = [entry for (_, kind), entry in stats.entries.items() if kind == "END-TO-END"]
        observed = Observed(
            tally=self._tally,
            depths=self.depth.depths,
            failures=failures,
            end_to_end_p99_ms=max((each.get_response_time_percentile(0.99) for each in latencies), default=0.0),
            seconds=self._seconds,
            roles=self._roles,
            unacked=self._unacked,
        )
        self._print_sums()
        self.findings = list(judge(self.options, observed))
        for finding in self.findings:
            print(f"{'ok  ' if finding.good else 'FAIL'}  {finding.what}: {finding.found}")
        self._write()
        return all(finding.good for finding in self.findings)

    def section(self) -> str:
        """Return the section to add to Locust's HTML report, with the verdict if there is one."""
        marks = (
            {"stop": self.options.stop_count, "resume": self.options.resume_count} if self.options.stop_count else {}
        )
        sums = {name.replace("_", " "): value for name, value in self._sums().items()}
        held = list(rows(self._tally))
        return report.section(self.findings, held, sums, self.depth.depths, self._tally.stops, marks, self._unacked)

    @property
    def _seconds(self) -> float:
        stats = self._environment.stats
        return float(max((stats.last_request_timestamp or 0) - stats.start_time, 0))

    def _clear(self) -> int:
        """Drain and delete the queues; return 1 if that failed."""
        try:
            if self.options.verify == "yes":
                left = sum(self._drain(topology) for topology in self._topologies)
                print(f"\nleft in the queues at the end: {left:,}")
            session = Session(self._target, "load cleanup")
            for topology in self._topologies:
                topology.delete(session)
            session.close()
        except (exceptions.AMQPError, OSError) as error:
            log.error("the queues could not be emptied and deleted: %r", error)
            return 1
        return 0

    def _drain(self, topology: Topology) -> int:
        seconds = self.options.drain_seconds
        return sum(
            probe.drain(self._target, queue, self._tally, seconds, copy) for copy, queue in enumerate(topology.queues)
        )

    def _sums(self) -> dict[str, float]:
        """The sums in messages; Locust's table counts batches."""
        sums: dict[str, float] = {"published": self._tally.published_total, "confirmed": 0, "received": 0}
        return sums | {name: value for name, value in sorted(self._tally.sums.items()) if value}

    def _print_sums(self) -> None:
        for name, value in self._sums().items():
            rate = (
                f"  {value / max(self._seconds, 1):>10,.0f}/s" if name in ("published", "confirmed", "received") else ""
            )
            print(f"{name.replace('_', ' '):>24}: {value:>12,.0f}{rate}")
        print("", *table(list(rows(self._tally))), "", sep="\n")

    def _write(self) -> None:
        """Add the section to the HTML report, which Locust has written by now; write a CSV table beside
        Locust's own.
        """
        parsed = self._environment.parsed_options
        if parsed is None:
            return
        if parsed.html_file and (page := Path(parsed.html_file)).exists():
            text = without_password(page.read_text("utf-8"), self._environment.host)
            page.write_text(report.insert_section(text, self.section()), "utf-8")
        if parsed.csv_prefix:
            held = [asdict(row) for row in rows(self._tally)]
            with Path(f"{parsed.csv_prefix}_flow.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(held[0]) if held else [])
                writer.writeheader()
                writer.writerows(held)
