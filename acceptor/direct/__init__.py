"""Direct connections: users of the HTTP interface publish, get and declare as clients do, without a socket."""
