"""Where a publish goes, and which gates stand before it."""
