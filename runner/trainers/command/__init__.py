"""Any trainer that has a command line, by the TOML file that describes it."""
