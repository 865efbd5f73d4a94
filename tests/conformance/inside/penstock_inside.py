"""A plugin for another suite's pytest (`-p penstock_inside`), which has none of this project's modules.

The plugin leaves out the listed tests, records the outcomes of the others, and redirects port 5672, which some suites
have built in, to the node under test. The variable PENSTOCK_INSIDE names a JSON file with `left_out` (lists of regular
expressions), `port` and `outcomes` (the file to write).
"""

import json
import os
import re
import socket

WELL_KNOWN = (5672, "5672")

with open(os.environ["PENSTOCK_INSIDE"]) as file:
    GIVEN = json.load(file)


def _redirect():
    """Redirect connections to port 5672 to the node's port."""
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def getaddrinfo(host, port, *arguments, **options):
        return resolve(host, GIVEN["port"] if port in WELL_KNOWN else port, *arguments, **options)

    def connect_to(self, address):
        if address[1:2] == (5672,):
            address = (address[0], GIVEN["port"], *address[2:])
        return connect(self, address)

    socket.getaddrinfo, socket.socket.connect = getaddrinfo, connect_to


class Outcomes:
    """The outcome of each test: its worst phase, with the last words of a failure or the reason of a skip.

    A failure that the suite itself expects counts as passed.
    """

    def __init__(self):
        self.tests = {}
        self.patterns = {pattern: re.compile(pattern) for entry in GIVEN["left_out"] for pattern in entry}
        self.used = set()

    def is_left_out(self, name):
        """Return whether a test or file is left out; record the patterns used."""
        matching = [pattern for pattern, regex in self.patterns.items() if regex.fullmatch(name)]
        self.used.update(matching)
        return bool(matching)

    def pytest_ignore_collect(self, collection_path, config):
        """Leave out whole files before they are imported: some cannot be imported."""
        return self.is_left_out(collection_path.relative_to(config.rootpath).as_posix()) or None

    def pytest_collection_modifyitems(self, config, items):
        """Leave out the listed tests."""
        left_out = [item for item in items if self.is_left_out(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    def pytest_collectreport(self, report):
        """Record what could not be collected."""
        if report.outcome != "passed":
            self.tests[report.nodeid] = report.outcome, str(report.longrepr)

    def pytest_runtest_logreport(self, report):
        """Record the outcome of a phase."""
        if report.outcome == "rerun":  # the suite expects that it may need another try
            self.tests.pop(report.nodeid, None)
        elif report.outcome == "passed" or hasattr(report, "wasxfail"):
            self.tests.setdefault(report.nodeid, ("passed", ""))
        elif self.tests.get(report.nodeid, ("passed",))[0] == "passed":
            crash = getattr(report.longrepr, "reprcrash", None) or report.longrepr
            self.tests[report.nodeid] = report.outcome, str(crash)

    def pytest_sessionfinish(self):
        """Write the outcomes, and the patterns that matched nothing."""
        with open(GIVEN["outcomes"], "w") as file:
            json.dump({"tests": self.tests, "unmatched": sorted(set(self.patterns) - self.used)}, file)


def pytest_configure(config):
    """Redirect the port and register the plugin."""
    _redirect()
    config.pluginmanager.register(Outcomes())
