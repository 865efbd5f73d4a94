"""A process of the node to the kernel and to its supervisor: its life, its memory, its signs of life."""
