"""The control sockets: commands and questions, who gave them, and what is kept of that."""
