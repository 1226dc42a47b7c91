"""What a finished sweep leaves behind for the next one: the surface of its curves, without its cells' own luck."""
