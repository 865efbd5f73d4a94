"""The commands of operators, received over the control socket."""
