"""The state of connections and channels, on which all parts above work."""
