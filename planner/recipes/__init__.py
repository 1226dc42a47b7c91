"""Recipes as data: one TOML file each, every value with its source."""
