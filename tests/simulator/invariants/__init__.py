"""Invariants of a joined node that need no client: some hold always, others once everything has come to rest.

gates.py      whoever waits has a reason, and nothing is in flight at rest
metered.py    rates hold, and gates that open with time are rechecked
accounts.py   gauges, counters and charges are those of what exists
consumers.py  whoever may have a message has it
moving.py     nothing is left of moves
node.py       all of them
"""
