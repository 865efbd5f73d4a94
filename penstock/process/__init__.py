"""A process of the node in relation to the kernel and its supervisor: start and end, memory, signs of life."""
