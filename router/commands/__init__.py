"""What operators command, over the control socket."""
