"""Traces of single messages, for those who ask where the time goes."""
