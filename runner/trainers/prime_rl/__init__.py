"""Prime Intellect's prime-rl, which is on no package index: facts.toml says what its sources know."""
