"""The brain of a sweep inside other people's tools: what decides here imports none of them."""
