"""The metrics of a node for Prometheus, read from its gauges."""
