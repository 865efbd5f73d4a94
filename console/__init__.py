"""The console: records the gauges of a node as telemetry. Clients are served without it."""
