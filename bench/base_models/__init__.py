"""How the models of the embedded tasks are made: `python -m bench.base_models`.

A model first learns to add, then picks up a habit of mistakes: it knows more than it shows, as a language model does
before reinforcement learning, and its pass rate can be set.
"""
