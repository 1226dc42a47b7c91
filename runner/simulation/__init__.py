"""Worlds in which trials need no GPU: response surfaces with known truth."""
