"""Errors that the command line reports in one line, and the end of a process that has left it."""


class StartError(Exception):
    """The node cannot be started; the text is one line that names the cause."""


class CommandError(Exception):
    """A command to a running node was not carried out; the text is one line that says why."""


class ForkEnded(SystemExit):
    """The end of a process that was forked from a command, and whose status is not the command's."""
