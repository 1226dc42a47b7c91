"""The reports of all sweeps and plans as pages that follow the database."""
