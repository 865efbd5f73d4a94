"""The topology on disk, and what becomes of it at a start."""
