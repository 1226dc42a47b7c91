"""THUDM's slime, which is on no package index: facts.toml says what its sources, and Megatron's, know."""
