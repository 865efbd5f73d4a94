"""What the processes of a node share in memory: gauges, counts, rates."""
