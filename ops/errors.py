"""Errors that the command line reports in one line."""


class StartError(Exception):
    """The node cannot be started; the text is one line that names the cause."""


class CommandError(Exception):
    """A command to a running node was not carried out; the text is one line that says why."""
