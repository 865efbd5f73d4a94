"""What a queue may hold and what it does, as its declaration, policies and settings say."""
