# The layout that docs/gauges.md describes.
# Words of the blocks; SEQUENCE is the first of each.
cdef enum:
    SEQUENCE = 0

    H_MAGIC = 0, H_VERSION, H_EPOCH, H_PID, H_ACCEPTORS, H_SHARDS, H_QUEUES
    H_TOPOLOGY = 8, H_USERS, H_PLACES  # a cache line of their own: they change, the words before them do not

    P_PID = 1, P_INCARNATION, P_STATE, P_STARTED, P_RESTARTS, P_WORDS
    P_BEAT = 8  # on the next line: one word for even incarnations, then one for odd ones
    P_FINISHING = 10  # likewise

    C_CONNECTIONS = 1, C_CHANNELS, C_HELD, C_PARKED, C_PAUSED, C_PUBLISHED, C_DELIVERED, C_CONFIRMED, C_TURNS
    C_IGNORING, C_WITHHOLD, C_PARK, C_PAUSE, C_REJECT, C_CLOSE_CHANNEL, C_CLOSE_CONNECTION, C_HOLD_OFF, C_REFUSED
    C_LOST, C_TURNED_AWAY, C_WORDS

    M_LAG_MEDIAN = 1, M_LAG_MOST, M_COMMIT, M_STORED, M_WORDS

    F_HELD_QUEUE = 1, F_HELD_LIMIT, F_HELD_RATE, F_HELD_SHARD, F_HELD_VHOST, F_HELD_STOP, F_HELD_REBALANCE, F_CHARGED
    F_STOPS = 9, F_RESUMES = F_STOPS + 16, F_WORDS = F_RESUMES + 16  # each: 15 counts, sum

    # The first cache line is what acceptors read for every publish.
    Q_OPEN = 1, Q_ID, Q_SINCE, Q_EPOCH, Q_SATURATED, Q_DEPTH_COUNT, Q_DEPTH_BYTES
    Q_READY, Q_UNACKED, Q_READY_BYTES, Q_UNACKED_BYTES, Q_PUBLISHED, Q_DELIVERED, Q_ACKED, Q_REDELIVERED
    Q_DROPPED, Q_CONSUMERS, Q_SATURATED_SINCE, Q_STOP_COUNT, Q_RESUME_COUNT, Q_STOP_BYTES, Q_RESUME_BYTES, Q_ASIDE
    Q_OVER_COUNT, Q_OVER_BYTES, Q_PUBLISHED_BYTES, Q_DELIVERED_BYTES, Q_PEAK_COUNT, Q_PEAK_BYTES
    Q_WHOLE_BYTES, Q_LENT, Q_WORDS

cdef enum:
    WORD = 8
    LINE = 64
    CHUNK = 4096  # the granularity of allocating memory for the file, and of finding it
    HEADER_SIZE = 128
    PROCESS_SIZE = 768
    COUNTERS_AT = 128  # within a process: the other writer's half, two lines away for the prefetcher's sake
    MEASURES_AT = 320
    FLOW_AT = 384
    HELD_WORDS = 7
    DELAY_WORDS = 16
    SLOT_SIZE = 256
    SLOTS_A_CHUNK = CHUNK // SLOT_SIZE
    NAMES_SIZE = 512  # length of vhost, length of name, vhost, name
    NAMES_WORDS = NAMES_SIZE // WORD
    BUCKETS = 1024
    BUCKET_SIZE = 32  # key, when it is full again (messages, then bytes), amounts waiting at acceptors
    PROBES = 16
    USERS = 8192
    USER_SIZE = 16  # key of a user, id of a queue that the user publishes to
    PLACES = 4096  # each a key, then messages and bytes that each writer claims: two writers for each acceptor
    NAME_MAX = 255  # bytes: both are AMQP short strings


cdef inline Py_ssize_t row_size(Py_ssize_t words) noexcept:
    """The bytes of a row of words, in whole cache lines."""
    return (words * WORD + LINE - 1) // LINE * LINE
