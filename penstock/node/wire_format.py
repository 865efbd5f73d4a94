"""The version of all that the processes of one node exchange, so that those of two releases can serve side by side.

It covers the turns and operations of the bus, the messages of router and supervisor, the node file, and the layout of
the shared memory. `penstock upgrade` replaces the processes of a node one by one only if the installed release has the
number of the running one. A change to any of these takes a new number: tests/penstock/node/test_wire_format.py has a
digest of their definitions.
"""

WIRE_FORMAT = 1
