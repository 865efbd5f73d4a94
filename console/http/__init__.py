"""HTTP as all routes have it: the server, logins, lists, errors."""
