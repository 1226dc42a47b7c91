"""What rlplan reads of other people's scripts: a table, for scripts of which nothing is kept here.

    python bench/scripts_read.py FOLDER [--list FILE]

FOLDER holds the trainers' repositories; `--list` has one script a line, relative to it.
"""

import argparse
import sys
from pathlib import Path

from budgets.errors import InputError
from planner.scripts.script import read_script
from planner.scripts.settings import ScriptFacts

ENDINGS = (".sh", ".yaml", ".yml", ".toml", ".py", ".sbatch")
NEEDED = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "model", "gpus", "response_tokens")
HEADS = ("n", "B", "rate", "model", "GPUs", "response")


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path)
    given = parser.parse_args()
    names = (
        given.list.read_text().split()
        if given.list
        else sorted(str(path.relative_to(given.folder)) for path in given.folder.rglob("*") if path.suffix in ENDINGS)
    )
    rows, whole = [], 0
    for name in names:
        row, complete = _row(name, given.folder / name)
        rows.append(row)
        whole += complete
    head = f"{whole} of {len(names)} scripts are read without a flag. * is the trainer's own default.\n\n"
    table = head + "\n".join(
        [f"| script | trainer | {' | '.join(HEADS)} | others | missing |", "|---" * 10 + "|", *rows]
    )
    sys.stdout.write(table + "\n")


def _row(name: str, path: Path) -> tuple[str, bool]:
    try:
        facts = read_script([path])
    except InputError as error:
        return f"| {name} | | | | | | | | | {error} |", False
    cells = [_cell(facts, each) for each in NEEDED]
    missing = [head for head, cell in zip(HEADS, cells, strict=True) if not cell]
    others = len(set(facts.keys) - set(NEEDED))
    said = "; ".join([", ".join(missing), *facts.unresolved]).strip("; ")
    return (
        f"| {name} | {facts.trainer or ''} | {' | '.join(cells)} | {others} | {said.replace('|', ' ')} |",
        not missing,
    )


def _cell(facts: ScriptFacts, name: str) -> str:
    value = getattr(facts.settings, name)
    if value is None:
        return ""
    text = str(value).rstrip("/").rpartition("/")[2] if isinstance(value, str) else f"{value:g}"
    return text + "*" * (name in facts.assumed)


if __name__ == "__main__":
    main()
