"""Learning curves: reading them, fitting their early part, and saying honestly where they go."""
