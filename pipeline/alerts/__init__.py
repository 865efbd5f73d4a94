"""Alerts: published on an exchange of the broker, once when a problem begins and once when it is over."""
