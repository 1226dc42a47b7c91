"""NVIDIA's NeMo-RL, which is on no package index and takes mistyped keys in silence: known.txt says what it knows."""
