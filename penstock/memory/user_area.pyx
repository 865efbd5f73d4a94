"""Users in the gauges: the queues that each publishes to, on all acceptors together."""

from libc.stdint cimport uint64_t

from penstock.batch.atomics cimport exchange_word, load_word, store_word
from penstock.memory.layout cimport H_USERS, USERS, USER_SIZE
from penstock.memory.mapped_file cimport MappedFile, reserve, to_read, to_write


cdef class UserArea(MappedFile):
    """The area `users`."""

    def user_queue_add(self, uint64_t key, uint64_t queue_id):
        """Any acceptor: add a queue that a user (a key above 0) publishes to. False if there is no place for more."""
        cdef unsigned char* users = to_write(self) + self.users_at
        cdef unsigned char* place
        cdef uint64_t seen
        cdef int i
        if not load_word(self.base, H_USERS):
            try:
                reserve(self, self.users_at, USERS * USER_SIZE)
            except OSError:
                return False
        for i in range(USERS):
            place = users + i * USER_SIZE
            if load_word(place, 0) == key and load_word(place, 1) == queue_id:
                return True
        for i in range(USERS):
            place = users + (key + i) % USERS * USER_SIZE
            seen = load_word(place, 1)
            if seen == 0 and exchange_word(place, 1, &seen, queue_id):
                store_word(place, 0, key)
                users_change(self)
                return True
        return False

    def user_queue_remove(self, uint64_t key, uint64_t queue_id):
        """Any acceptor: remove a deleted queue of a user. The acceptor found the queue there before."""
        cdef unsigned char* users = to_write(self) + self.users_at
        cdef unsigned char* place
        cdef uint64_t seen
        cdef int i
        for i in range(USERS):
            place = users + i * USER_SIZE
            seen = load_word(place, 1)
            if seen == queue_id and load_word(place, 0) == key:
                exchange_word(place, 1, &seen, 0)
        users_change(self)

    def user_queues(self, uint64_t key):
        """The ids of the queues that a user publishes to, on all acceptors together."""
        cdef const unsigned char* users = to_read(self) + self.users_at
        cdef const unsigned char* place
        cdef uint64_t id
        cdef int i
        found = set()
        if not load_word(self.base, H_USERS):
            return []  # the area has no memory yet
        for i in range(USERS):
            place = users + i * USER_SIZE
            if load_word(place, 0) == key:
                id = load_word(place, 1)
                if id:
                    found.add(id)
        return sorted(found)

    def users_changed(self):
        """A number that changes whenever an acceptor adds or removes a queue of a user."""
        return load_word(to_read(self), H_USERS)


cdef inline void users_change(MappedFile file) noexcept:
    cdef uint64_t seen = load_word(file.base, H_USERS)
    while not exchange_word(file.base, H_USERS, &seen, seen + 1):
        pass
