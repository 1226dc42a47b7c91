"""What this machine can run: facts are probed once, and each check is a pure function of them."""
