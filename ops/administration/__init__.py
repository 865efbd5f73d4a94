"""Commands to a running node: what each says to the router over the control socket, and how the answer is shown."""
