"""Invariants when processes are killed, the power goes or the disk refuses calls: a harness and the tests that use it.

events      what clients saw happen: a list
checker     the rules: reads that list, reports violations
plan        the queues of a run, their arguments and what each may do with a message
node        the broker under test: how it is reached, killed, counted
publishers, consumers, leasers, movers, declarer, guests
            clients that record their actions
drain       compares the counts of a node at rest with the messages that can be read from it
rounds      load, faults, rest, check; repeatedly
report      the report on a run that failed
disk        a disk that loses unflushed data, and that can refuse calls: `disk.c`, preloaded into the broker
"""
