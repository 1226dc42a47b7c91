"""The ports: what a trainer, an engine, a task and an executor promise, and the words in which all of them speak."""
