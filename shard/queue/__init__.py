"""One queue: its contents, its consumers and their order, its limits, and whether it is saturated."""
