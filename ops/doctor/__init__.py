"""Checks of the surroundings of a node: machine, kernel, clocks, disk, ports, and the command that changes each."""
