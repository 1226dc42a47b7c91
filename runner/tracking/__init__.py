"""Copies of a sweep's trials in the experiment trackers of others."""
