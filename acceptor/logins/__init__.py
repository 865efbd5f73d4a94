"""Passwords: verified in turn, remembered, and guesses held back."""
