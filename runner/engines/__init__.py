"""Rollout engines behind one port: torch, which runs everywhere, and vLLM."""
