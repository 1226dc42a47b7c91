"""SkyRL, driven from outside: what is started in its environment, and what is known of it here."""
