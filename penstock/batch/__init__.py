"""Where messages lie while they travel: rows of a batch, large contents in an arena."""
