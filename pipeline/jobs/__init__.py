"""The answers, a module each: a pure function from frames to a frame with the columns of its `TABLE`."""
