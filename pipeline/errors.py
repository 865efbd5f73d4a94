"""The error that the commands report to their user."""


class PipelineError(Exception):
    """A job cannot run; the text is one line that names the cause."""
