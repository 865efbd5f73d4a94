"""The report: all answers for a range of time, as a self-contained page and as JSON."""
