"""Runs a plan: segments of trials on workers, decisions in between, everything in the results database."""
