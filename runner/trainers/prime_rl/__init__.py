"""Prime Intellect's prime-rl, which is on no package index, driven from outside."""
