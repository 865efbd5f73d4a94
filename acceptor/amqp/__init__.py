"""The protocol: connections, channels, and the methods of each class."""
