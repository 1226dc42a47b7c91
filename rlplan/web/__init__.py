"""The pages: pictures as plain data, the report, and the dashboard."""
