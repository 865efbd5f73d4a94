"""What is done to the stores of a node that does not run: looked through, made smaller, written out, read in."""
