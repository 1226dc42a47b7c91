"""Reads the logs that other people's trainers write, as they are: consoles, rows, and what their names mean."""
