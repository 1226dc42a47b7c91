"""The GRPO objective and its parts: pure functions on tensors."""
