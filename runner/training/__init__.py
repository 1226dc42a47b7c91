"""One trial: data order, batches, updates, validation, health and exact checkpoints."""
