"""What can go wrong for who runs a job."""


class PipelineError(Exception):
    """A job cannot be run; the text is one line that names the cause."""
