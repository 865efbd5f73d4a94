"""The messages of a queue: segments in lines, ready and in hand; what only the store has comes back on demand."""
