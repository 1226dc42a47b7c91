"""Pictures of a sweep, as plotly figures in plain data."""
