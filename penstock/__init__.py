"""The ground floor of penstock: what all its processes share and what users may import."""
