"""Invariants when processes are killed, the power fails or the disk refuses calls: a harness and the tests that use it.

events      the list of events as clients saw them
checker     the rules: reads that list and reports violations
plan        the queues of a run, their arguments and the possible fates of their messages
node        the broker under test: access, kills, counts
publishers, consumers, leasers, movers, declarer, guests
            clients that record their actions
drain       compares the counts of a node at rest with the messages that can be read from it
rounds      load, faults, rest, check; repeated
report      the report on a failed run
disk        a disk that loses unflushed data and can refuse calls: `disk.c`, preloaded into the broker
"""
