"""The trained model: loading it, its output head, and the log-probabilities that it gives to tokens."""
