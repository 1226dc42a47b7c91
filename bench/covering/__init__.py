"""What bench/coverage.py measures: beliefs about runs far beyond their pilots, and about runs that were given up."""
