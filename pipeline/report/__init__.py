"""The report: all answers of a range of time, as one page that asks nobody for anything, and as JSON."""
