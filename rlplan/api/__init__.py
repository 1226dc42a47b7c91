"""The Python API: what the commands do, as functions and objects for scripts and notebooks."""
