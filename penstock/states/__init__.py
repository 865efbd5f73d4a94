"""Life cycles: states as enums, and the tables that say which state follows which."""
