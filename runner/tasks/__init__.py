"""Tasks: prompts, verifiable rewards, and the tiny models of the embedded ones."""
