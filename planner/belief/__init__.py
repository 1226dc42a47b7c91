"""One model of all curves of a sweep: what neighbours, seeds and other recipes say of each other."""
