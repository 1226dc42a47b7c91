"""Reads whole runs of other people's trainers: their settings, what they did, and whether they compare."""
