"""What can keep a node from starting, told to the person who tried."""


class StartError(Exception):
    """The node cannot be started; the text is one line that names the cause."""
