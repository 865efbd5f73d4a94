"""Files that outlive a process: made so that a crash leaves them whole or says so."""
