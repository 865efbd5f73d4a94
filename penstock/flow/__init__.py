"""Events, incidents and short stops of flow control."""
