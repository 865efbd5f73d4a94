# 64-bit words in shared memory: C11 atomics, and a sequence lock made of them. Pointers carry no bounds.
#
# A word is loaded and stored whole. A block is `count` words of which the first is the sequence: odd while its only
# writer is writing, even and different after every write. A reader that sees the same even sequence before and after
# has read exactly one write. A writer that finds the sequence odd replaces one that died while writing: it keeps the
# number, writes everything, and leaves the block even.
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdatomic.h>
    #include <stdint.h>

    typedef _Atomic uint64_t penstock_word;
    _Static_assert(sizeof(penstock_word) == 8 && ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics must be free of locks");

    static inline uint64_t load_word(const unsigned char *at, size_t i) {
        return atomic_load_explicit((const penstock_word *) at + i, memory_order_acquire);
    }
    static inline void store_word(unsigned char *at, size_t i, uint64_t value) {
        atomic_store_explicit((penstock_word *) at + i, value, memory_order_release);
    }
    /* Stores `value` if the word is still `*seen`, else writes the word to `*seen`; returns 1 if it was stored. */
    static inline int exchange_word(unsigned char *at, size_t i, uint64_t *seen, uint64_t value) {
        return atomic_compare_exchange_strong((penstock_word *) at + i, seen, value);
    }
    /* Unordered: only between begin_block and end_block. */
    static inline uint64_t load_plain(const unsigned char *at, size_t i) {
        return atomic_load_explicit((const penstock_word *) at + i, memory_order_relaxed);
    }
    static inline void store_plain(unsigned char *at, size_t i, uint64_t value) {
        atomic_store_explicit((penstock_word *) at + i, value, memory_order_relaxed);
    }

    /* Of two processes that store, call this and load, at least one sees the other's store. */
    static inline void order_all(void) {
        atomic_thread_fence(memory_order_seq_cst);
    }

    static inline void begin_block(unsigned char *block) {
        store_plain(block, 0, load_plain(block, 0) | 1);
        atomic_thread_fence(memory_order_release);  /* no store of the block may be seen before the odd number */
    }
    static inline void end_block(unsigned char *block) {
        store_word(block, 0, load_plain(block, 0) + 1);
    }
    /* Copies the block, and `more` words elsewhere written under its sequence; returns 1 if both are of one write. */
    static inline int read_block(const unsigned char *block, size_t count, uint64_t *copy,
                                 const unsigned char *tail, size_t more, uint64_t *tail_copy) {
        uint64_t before = load_word(block, 0);
        for (size_t i = 0; i < count; i++) copy[i] = load_plain(block, i);
        for (size_t i = 0; i < more; i++) tail_copy[i] = load_plain(tail, i);
        atomic_thread_fence(memory_order_acquire);  /* loads of the block stay before the reload of the sequence */
        return !(before & 1) && load_plain(block, 0) == before;
    }
    static inline void spin_pause(void) {
    #if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
    #elif defined(__aarch64__)
        __asm__ __volatile__("yield");
    #endif
    }
    """
    uint64_t load_word(const unsigned char* at, size_t i) noexcept nogil
    void store_word(unsigned char* at, size_t i, uint64_t value) noexcept nogil
    bint exchange_word(unsigned char* at, size_t i, uint64_t* seen, uint64_t value) noexcept nogil
    uint64_t load_plain(const unsigned char* at, size_t i) noexcept nogil
    void store_plain(unsigned char* at, size_t i, uint64_t value) noexcept nogil
    void order_all() noexcept nogil
    void begin_block(unsigned char* block) noexcept nogil
    void end_block(unsigned char* block) noexcept nogil
    bint read_block(const unsigned char* block, size_t count, uint64_t* copy,
                    const unsigned char* tail, size_t more, uint64_t* tail_copy) noexcept nogil
    void spin_pause() noexcept nogil
