"""Who is stopped and who goes on: decided, told, kept."""
