"""What looks at a node from beside: it writes down what the gauges say, and clients are served without it."""
