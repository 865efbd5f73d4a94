"""The messages of a queue: segments in lines, ready and unacked; contents that only the store has are read on
demand.
"""
