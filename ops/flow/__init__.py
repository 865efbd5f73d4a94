"""`penstock flow`: who is held, why and for how long still; the operator's own stops."""
