"""What people write and read: amounts, durations, patterns, names that are no UTF-8."""
