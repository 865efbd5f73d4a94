"""What must hold when processes are killed, the power goes or the disk refuses: a harness and the tests it serves.

events      what clients saw happen: a list
checker     the rules: reads that list, names what is wrong
plan        the queues of a run, their arguments and what each may do with a message
node        the broker under test: how it is reached, killed, counted
publishers, consumers, leasers, movers, declarer, guests
            clients that note what they do
drain       counts a node at rest against what can be got out of it
rounds      load, faults, rest, check; again and again
report      what is told of a run that failed
disk        a disk that loses what was not flushed, and that can refuse: `disk.c`, preloaded into the broker
"""
