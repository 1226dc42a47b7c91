"""The generator–trainer split as two Ray actors, with a bound on staleness."""
