"""Flow control as operators see it: causes, rates, incidents, trials. No I/O but the files of incidents."""
