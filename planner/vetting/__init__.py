"""What a script would launch: whether it fits, what it costs, what is wrong with it, and what would help; pure."""
