# The constants of settlement_rows.py.

cdef enum:
    SETTLED_ROW = 24
    OF_SEQUENCE = 8
    OF_COUNT = 16
    OF_KIND = 20

    SETTLE_ACK = 0
    SETTLE_REQUEUE = 1
    SETTLE_REJECT = 2
