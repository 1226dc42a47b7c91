"""Does: will hold training, rollout engines and the sweep; the ground floor needs none of it yet."""
