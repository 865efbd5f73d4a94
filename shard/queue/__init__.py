"""One queue: its contents, its consumers and who is served next, its limits and whether it is saturated."""
