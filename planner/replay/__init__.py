"""Plays a policy over runs that were recorded before: what would it have chosen, and what would that have cost?"""
