"""verl 0.9.1: its configuration, its files, and what of a recipe it does otherwise."""
