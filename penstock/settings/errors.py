"""The error of settings, which the command line reports in one line."""


class SettingsError(ValueError):
    """A setting that cannot be used; the text is one line for its author, naming the key and its origin."""
