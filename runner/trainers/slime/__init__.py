"""THUDM's slime, which is on no package index: known.txt says what its sources, and Megatron's, know."""
