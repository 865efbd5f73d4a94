"""The topology as replicated in every process that routes, holds queues or shows them: no file, socket or authority."""
