"""What there is to tell of a sweep, read once: for the report, the dashboard, the commands and Python."""
