"""Commands to a running node: each sends a request to the router over the control socket, and shows the answer."""
