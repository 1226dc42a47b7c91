"""Decides what a sweep does next: pure functions of what is known, without a clock, I/O or randomness of their own."""
