"""What is tried before a sweep spends anything: its folder, from every machine, and its trials with stand-ins."""
