"""A node without processes: acceptor cores, shard cores and the router's authority, joined by lists.

Nothing moves by itself. Messages between them stay in lists, in order, until the test delivers them (or `settle`
delivers all of them); the test decides which broadcasts are lost, which processes die and what time it is. Connections
read and write bytes as they would through a socket.

    client.py        a client with its socket
    processes.py     an incarnation of an acceptor, one of a shard
    running.py       the node's state: what runs, and what is in line
    under_router.py  what the router does: commands, changes of the topology, moves
    starts.py        starts and deaths
    lines.py         one step of each line, the end of a turn
    node.py          the node: clients connect, and everything settles
    books.py         a node that knows what entered its queues
"""
