"""The parts of bench/allocbench.py: making the runs, pricing them, the table, what is found in it, and pictures."""
