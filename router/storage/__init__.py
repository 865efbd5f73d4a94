"""The topology on disk, and its recovery at a start."""
