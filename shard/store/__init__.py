"""The store: gathering, writing, checking, reading and upgrading its records on disk.

LMDB is known to environment, store, checkpoint, checkpointed, headroom, pages, probe, facts, takeover, puts_cy and
sealed_cy; journal, flushes, background and stored are independent of it.
"""
