"""NVIDIA's NeMo-RL, which is on no package index and takes mistyped keys in silence: facts.toml says what it knows."""
