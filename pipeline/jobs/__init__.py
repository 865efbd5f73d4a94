"""The answers, a module each: a function of frames that gives a frame with the columns of its `TABLE`, without I/O."""
