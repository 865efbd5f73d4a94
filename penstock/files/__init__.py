"""Files that outlive a process, written so that a crash leaves them whole or detectably damaged."""
