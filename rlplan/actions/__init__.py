"""What the commands do, callable from Python: the API calls the same functions."""
