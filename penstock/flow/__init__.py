"""What is told and kept of flow control: events, incidents, short stops."""
