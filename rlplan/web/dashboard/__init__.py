"""A sweep's page, live from its database."""
