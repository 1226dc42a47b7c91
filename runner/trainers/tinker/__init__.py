"""A service that speaks the Tinker API, driven by a program of ours: it trains adapters, and has the GPUs."""
