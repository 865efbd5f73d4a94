"""Alerts: what goes wrong, told once when it begins and once when it is over, on an exchange of the broker."""
