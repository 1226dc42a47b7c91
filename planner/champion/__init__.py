"""Champion first: a run that is its own pilot, when challengers are worth a look, and when one takes its place."""
