"""How a producer is held and released: notices, parking, pauses, escalation; and the books kept of it."""
