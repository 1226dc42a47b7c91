"""What there is to tell of plans and sweeps, read once from the database: for every face."""
