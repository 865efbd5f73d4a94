"""What is on disk: what gathers for a commit, how it is written, checked, read and taken over."""
