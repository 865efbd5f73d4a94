"""A whole node in one process, under virtual time and a seed: acceptors, shards and router with their clients, while
everything goes wrong that can.

    make simulate                 as many seeds as one likes, on all cores
    make simulate SEED=1234       one of them again, with its story

A seed draws a **plan** (`plan.py`): the size of the node, its queues, the clients and their habits, the operators'
actions, the faults, and the phases of calm and of storm. The **world** (`world.py`) plays it: every step of the node is
an event on one **timeline** of virtual time, and the order of steps is the order of their times, which the seed draws
as well. Processes are the real cores; what a process would do with sockets, the world does with lists.

Each client, each link and each process draws from random numbers of its own, derived from the seed and its name. So a
plan with one client or one fault less still plays the rest as before, which is what makes shrinking (`shrink.py`) work.

The **truth** (`truth.py`) is what the clients know. The **promises** (`promises.py`) of the documents are checked
against it while the plan is played and, above all, at the end: then the faults are over, everything that died is back,
all producers have fallen silent, and one client drains all queues. The **invariants** (`invariants/`) need no client to
be checked: some hold after every step, others once everything has come to rest.

The invariant of this package: the same seed gives the same bytes to every client at the same virtual times.
"""
