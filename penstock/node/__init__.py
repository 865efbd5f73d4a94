"""A process's identity, its clocks, and its logs."""
