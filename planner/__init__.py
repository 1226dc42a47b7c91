"""Decides: proposals, priors, and the results database that every decision is written to."""
