"""What is done to the stores of a node: looked through, backed up, made smaller, written out, read in."""
