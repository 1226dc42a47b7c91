"""How each trainer that is driven writes metrics and checkpoints; the standard library alone, as the stand-in."""
