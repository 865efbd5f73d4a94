"""The ground floor of penstock: what all its processes share and what users may import."""

__version__ = "0.1.0"
