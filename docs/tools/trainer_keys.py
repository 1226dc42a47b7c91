"""Refreshes runner/trainers/NAME/known.txt from a checkout of a trainer that takes a mistyped key in silence.

`python docs/tools/trainer_keys.py nemo-rl CHECKOUT` reads its sources; none of them is imported. Megatron's options,
which slime takes as they are, are read from a checkout of Megatron-LM behind it, at the commit that slime is built on.
"""

import argparse
import ast
import re
import subprocess
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

TRAINERS = Path(__file__).parents[2] / "runner" / "trainers"
NEMO_RL = "examples/configs/grpo_math_1B.yaml"
NEMO_RL_CLASSES = (  # file, class, and where its keys stand
    ("nemo_rl/algorithms/grpo.py", "MasterConfig", ("",)),
    ("nemo_rl/algorithms/grpo.py", "GRPOConfig", ("grpo.",)),
    ("nemo_rl/algorithms/loss/loss_functions.py", "ClippedPGLossConfig", ("loss_fn.",)),
    ("nemo_rl/utils/checkpoint.py", "CheckpointingConfig", ("checkpointing.",)),
    ("nemo_rl/models/policy/__init__.py", "TokenizerConfig", ("policy.tokenizer.",)),
    ("nemo_rl/data/__init__.py", "ResponseDatasetConfig", ("data.train.", "data.validation.", "data.default.")),
)
SLIME = ("slime/utils/arguments.py", "slime/backends/sglang_utils/arguments.py")
MEGATRON = (
    *(
        f"megatron/training/{name}.py"
        for name in ("arguments", "common_config", "resilience_config", "training_config")
    ),
    "megatron/core/transformer/transformer_config.py",
    "megatron/core/model_parallel_config.py",
)
VERSIONS = {"nemo-rl": "nemo_rl/package_info.py", "slime": "setup.py"}
FREE = ("dict", "Dict", "seq", "map")  # types below which anything may stand
WIDTH = 118


class Checkout:
    """A repository's files at a commit."""

    def __init__(self, given: str) -> None:
        """Take its folder, and behind an @ the commit; else that which is checked out."""
        self._path, _, commit = given.partition("@")
        self.commit = self._git("rev-parse", commit or "HEAD").strip()

    def text(self, name: str) -> str:
        """Return a file."""
        return self._git("show", f"{self.commit}:{name}")

    def names(self, folder: str) -> list[str]:
        """Return the Python files below a folder, or the one of that name."""
        listed = self._git("ls-tree", "-r", "--name-only", self.commit, folder).split()
        return [name for name in listed if name[-3:] == ".py"]

    def _git(self, *words: str) -> str:
        return subprocess.run(["git", "-C", self._path, *words], check=True, capture_output=True, text=True).stdout


def nemo_rl(checkouts: Sequence[Checkout]) -> Iterator[tuple[str, str]]:
    """Yield the keys of NeMo-RL's exemplar, and of classes for what is not in it, with their types."""
    yield from _yaml(yaml.compose(checkouts[0].text(NEMO_RL)), "")
    for file, name, places in NEMO_RL_CLASSES:
        tree = ast.parse(checkouts[0].text(file))
        node = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
        for before in places:
            yield from ((before + key, kind) for key, kind in _fields(node))


def _yaml(node: yaml.Node, before: str) -> Iterator[tuple[str, str]]:
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _yaml(value, f"{before}{name.value}.")
        else:
            yield f"{before}{name.value}", value.tag.rpartition(":")[2]


def slime(checkouts: Sequence[Checkout]) -> Iterator[tuple[str, str]]:
    """Yield the flags of slime and of Megatron-LM."""
    for checkout, folders in zip(checkouts, (SLIME, MEGATRON), strict=False):
        for folder in folders:
            for name in checkout.names(folder):
                yield from _arguments(ast.parse(checkout.text(name)))


def _arguments(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what is added to an argparse parser, and the fields of dataclasses that Megatron makes flags of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "add_argument":
            for given in node.args:
                if isinstance(given, ast.Constant) and str(given.value).startswith("--"):
                    yield str(given.value)[2:], ""
        elif isinstance(node, ast.ClassDef) and "dataclass" in " ".join(map(ast.unparse, node.decorator_list)):
            yield from ((key.replace("_", "-"), "") for key, _ in _fields(node))


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id, ast.unparse(each.annotation)


READERS = {"nemo-rl": nemo_rl, "slime": slime}


def written(head: str, keys: dict[str, bool]) -> str:
    """Return the file of keys, of which each says whether anything may stand below it."""
    below: dict[str, list[str]] = defaultdict(list)
    for key, free in sorted(keys.items()):
        above, _, name = key.rpartition(".")
        below[above].append(f"{name}{'*' * free}")
    lines = [f"# {head}"]
    for above, names in below.items():
        before = f"{above}: " if above else ""
        for line in textwrap.wrap(" ".join(names), WIDTH - len(before), break_on_hyphens=False, break_long_words=False):
            lines.append(before + line)
    return "\n".join(lines) + "\n"


def table(trainer: str, checkouts: Sequence[Checkout]) -> str:
    """Return the keys of a trainer, by the type that was found first."""
    keys: dict[str, bool] = {}
    for key, kind in READERS[trainer](checkouts):
        keys.setdefault(key, any(free in kind for free in FREE))
    return written(f"{trainer} {_version(trainer, checkouts[0])} ({checkouts[0].commit[:9]})", keys)


def _version(trainer: str, checkout: Checkout) -> str:
    text = checkout.text(VERSIONS[trainer])
    if trainer == "nemo-rl":
        numbers = dict(re.findall(r"^(MAJOR|MINOR|PATCH) = (\d+)", text, re.MULTILINE))
        return ".".join(numbers[each] for each in ("MAJOR", "MINOR", "PATCH"))
    found = re.search(r"version\s*=\s*[\"']([\d.]+)", text)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer", choices=READERS)
    parser.add_argument("checkouts", nargs="+", help="FOLDER or FOLDER@COMMIT")
    given = parser.parse_args()
    text = table(given.trainer, [Checkout(path) for path in given.checkouts])
    (TRAINERS / given.trainer.replace("-", "_") / "known.txt").write_text(text, encoding="utf-8")
