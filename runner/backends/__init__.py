"""Trainer backends behind one port."""
