"""Refuses names that say nothing of what they hold: `python tests/names.py`, which `make check` calls.

A package has no more of them than it had when the rule came; the numbers go down with them.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = {
    *("each", "found", "given", "known", "asked", "wanted", "own"),
    *("held", "told", "said", "seen", "kept", "laid", "meant"),
    *("taken", "named", "beside", "left", "what", "who", "whose"),
}
MOST = {"budgets": 7, "planner": 29, "runner": 31, "rlplan": 180}


def names(path: Path) -> list[tuple[int, str]]:
    """Return the lines and names of variables and parameters that a file binds to one of the words."""
    bound = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            bound.append((node.lineno, node.arg))
    return sorted((line, name) for line, name in bound if name in WORDS)


def main() -> int:
    """Say which packages have more of them than they may."""
    code = 0
    for package, most in MOST.items():
        files = {path: names(path) for path in sorted((ROOT / package).rglob("*.py"))}
        count = sum(map(len, files.values()))
        if count > most:
            code = 1
            print(
                f"{package}: {count} names such as each, found or given, {most} at most: name the thing that they hold"
            )
            for path, bound in files.items():
                for line, name in bound:
                    print(f"  {path.relative_to(ROOT)}:{line}: {name}")
    return code


if __name__ == "__main__":
    sys.exit(main())
