"""The face of rlplan: command line and Python API."""
