"""Follow a run from within its trainer, by the rules of `rlplan watch`: a module for each, loaded by that trainer."""
