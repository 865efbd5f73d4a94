cimport cython
from shard.store.sealed_cy cimport Sums, seal

@cython.locals(contents=dict, checksums=dict, records=dict, key=bytes, record=bytes, value=bytes)
cpdef object put_segments(object txn, object environment, object segments, Sums sums)
@cython.locals(key=bytes, record=bytes, value=bytes)
cpdef object put_records(object txn, object environment, str name, dict records, Sums sums)
@cython.locals(key=bytes, record=bytes)
cpdef object put_links(object txn, object db, dict records)
