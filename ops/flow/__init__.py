"""`penstock flow`: which producers are held, why and for how much longer; the operator's own stops."""
