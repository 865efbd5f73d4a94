"""The control sockets: commands and questions, their senders, and the audit log."""
