"""What a node writes down of itself over time: its tables, its files, and who writes them."""
