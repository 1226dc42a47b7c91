"""Shell scripts, read and never run: which commands they would start, with their variables filled in."""

from planner.scripts.shell.parser import LARGEST, Command, Shell, read_shell

__all__ = ["LARGEST", "Command", "Shell", "read_shell"]
