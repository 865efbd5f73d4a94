"""The traces of a node, gathered from its processes: shown, and sent on by OTLP."""
