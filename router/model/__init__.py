"""The topology as everybody has it who routes, holds queues or shows them: no file, no socket, no authority."""
