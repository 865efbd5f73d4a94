"""Tools for the stores of a node: check, backup, compaction, dump, restore, salvage."""
