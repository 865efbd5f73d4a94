"""`penstock tls`: certificates for development, and what listeners serve."""
