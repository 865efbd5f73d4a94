"""The base layer of penstock: code shared by all its processes, and the producer client that users import."""

__version__ = "0.1.0"
