"""Telemetry, the node's record of itself over time: its tables, its files, and their writer."""
