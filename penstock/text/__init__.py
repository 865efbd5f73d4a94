"""Texts that people write and read: amounts, durations, patterns, names that are not UTF-8."""
