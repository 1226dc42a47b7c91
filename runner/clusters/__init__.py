"""Files by which clusters of others are asked for."""
