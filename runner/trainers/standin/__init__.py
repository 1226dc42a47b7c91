"""A light process that behaves as a trainer does, in scaled time, and breaks down where it is told to."""
