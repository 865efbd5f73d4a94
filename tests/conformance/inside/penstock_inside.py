"""Loaded into another suite's pytest (`-p penstock_inside`), which has none of this project's modules.

It leaves out the tests of the list it is given, writes down what became of the others, and leads port 5672, which some
suites know by heart, to the node under test. The variable PENSTOCK_INSIDE names a JSON file with `left_out` (lists of
regular expressions), `port` and `outcomes` (the file to write).
"""

import json
import os
import re
import socket

WELL_KNOWN = (5672, "5672")

with open(os.environ["PENSTOCK_INSIDE"]) as file:
    GIVEN = json.load(file)


def _redirect():
    """Ask for port 5672, get the node's."""
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def getaddrinfo(host, port, *arguments, **options):
        return resolve(host, GIVEN["port"] if port in WELL_KNOWN else port, *arguments, **options)

    def connect_to(self, address):
        if address[1:2] == (5672,):
            address = (address[0], GIVEN["port"], *address[2:])
        return connect(self, address)

    socket.getaddrinfo, socket.socket.connect = getaddrinfo, connect_to


class Outcomes:
    """What became of each test: its worst phase, with the last words of a failure or the reason of a skip.

    A failure that the suite itself expects counts as passed.
    """

    def __init__(self):
        self.tests = {}
        self.patterns = {pattern: re.compile(pattern) for entry in GIVEN["left_out"] for pattern in entry}
        self.used = set()

    def is_left_out(self, name):
        matching = [pattern for pattern, regex in self.patterns.items() if regex.fullmatch(name)]
        self.used.update(matching)
        return bool(matching)

    def pytest_ignore_collect(self, collection_path, config):
        """Whole files are left out before they are imported: some cannot be."""
        return self.is_left_out(collection_path.relative_to(config.rootpath).as_posix()) or None

    def pytest_collection_modifyitems(self, config, items):
        left_out = [item for item in items if self.is_left_out(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self.tests[report.nodeid] = report.outcome, str(report.longrepr)

    def pytest_runtest_logreport(self, report):
        if report.outcome == "rerun":  # the suite expects that it may need another try
            self.tests.pop(report.nodeid, None)
        elif report.outcome == "passed" or hasattr(report, "wasxfail"):
            self.tests.setdefault(report.nodeid, ("passed", ""))
        elif self.tests.get(report.nodeid, ("passed",))[0] == "passed":
            crash = getattr(report.longrepr, "reprcrash", None) or report.longrepr
            self.tests[report.nodeid] = report.outcome, str(crash)

    def pytest_sessionfinish(self):
        with open(GIVEN["outcomes"], "w") as file:
            json.dump({"tests": self.tests, "unmatched": sorted(set(self.patterns) - self.used)}, file)


def pytest_configure(config):
    _redirect()
    config.pluginmanager.register(Outcomes())
