"""Memory shared by a node's processes: gauges, counts, rates."""
