"""Refreshes runner/trainers/NAME/facts.toml from a checkout of a trainer that no package index has.

`python docs/tools/trainer_facts.py prime-rl CHECKOUT` reads its sources; none of them is imported. Megatron's options,
which slime takes as they are, are read from a checkout of Megatron-LM behind it, at the commit that slime is built on.
"""

import argparse
import ast
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

TRAINERS = Path(__file__).parents[2] / "runner" / "trainers"
PRIME_RL = "packages/prime-rl-configs/src/"
NEMO_RL = "examples/configs/grpo_math_1B.yaml"
NEMO_RL_CLASSES = (  # file, class, and where its keys stand
    ("nemo_rl/algorithms/grpo.py", "MasterConfig", ("",)),
    ("nemo_rl/algorithms/grpo.py", "GRPOConfig", ("grpo.",)),
    ("nemo_rl/algorithms/loss/loss_functions.py", "ClippedPGLossConfig", ("loss_fn.",)),
    ("nemo_rl/utils/checkpoint.py", "CheckpointingConfig", ("checkpointing.",)),
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
VERSIONS = {"prime-rl": "pyproject.toml", "nemo-rl": "nemo_rl/package_info.py", "slime": "setup.py"}


class Fact(NamedTuple):
    """What a trainer's sources say of a key."""

    key: str
    type: str
    default: str
    where: str  # file:line

    def line(self) -> str:
        """Return it as a line of the table."""
        return f"{json.dumps(self.key)} = {json.dumps(list(self[1:]), ensure_ascii=False)}"


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
        return [
            name
            for name in self._git("ls-tree", "-r", "--name-only", self.commit, folder).split()
            if name[-3:] == ".py"
        ]

    def _git(self, *words: str) -> str:
        return subprocess.run(["git", "-C", self._path, *words], check=True, capture_output=True, text=True).stdout


class Models:
    """Classes of pydantic models across modules, followed from one to the next by their annotations."""

    def __init__(self, checkout: Checkout, root: str) -> None:
        self._checkout, self._root = checkout, root
        self._modules: dict[str, dict[str, tuple[str, ast.AST]]] = {}

    def facts(self, module: str, name: str, before: str = "") -> Iterator[Fact]:
        """Yield every key of a class, nested ones dotted; where several classes may stand, the keys of all."""
        home, node = self._named(module, name)
        assert isinstance(node, ast.ClassDef)
        for base in node.bases:
            if isinstance(base, ast.Name) and self._is_class(home, base.id):
                yield from self.facts(home, base.id, before)
        for each in node.body:
            if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
                continue
            kind = ast.unparse(each.annotation)
            if kind.startswith("ClassVar"):
                continue
            key = f"{before}{each.target.id}"
            nested = list(self._classes(home, each.annotation))
            default = "" if each.value is None else _default(each.value)
            yield Fact(key, kind, default, f"{Path(home).name}:{each.lineno}")
            many = "[]" if kind.startswith("list[") else ""
            for below, below_name in nested:
                yield from self.facts(below, below_name, f"{key}{many}.")

    def _classes(self, module: str, annotation: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield the classes that an annotation names, through aliases."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval")
        named = [each for each in ast.walk(annotation) if isinstance(each, ast.Name)]
        for each in sorted(named, key=lambda name: (name.lineno, name.col_offset)):
            if (found := self._find(module, each.id)) is None:
                continue
            home, node = found
            if isinstance(node, ast.ClassDef):
                yield home, node.name
            else:
                yield from self._classes(home, node)

    def _is_class(self, module: str, name: str) -> bool:
        found = self._find(module, name)
        return found is not None and isinstance(found[1], ast.ClassDef)

    def _named(self, module: str, name: str) -> tuple[str, ast.AST]:
        found = self._find(module, name)
        assert found is not None, f"{module} has no {name}"
        return found

    def _find(self, module: str, name: str) -> tuple[str, ast.AST] | None:
        if module not in self._modules:
            self._modules[module] = {}
            self._read(module)
        found = self._modules[module].get(name)
        if found is not None and isinstance(found[1], ast.alias):
            return self._find(found[0], found[1].name)
        return found

    def _read(self, module: str) -> None:
        names = self._modules[module]
        for node in ast.parse(self._checkout.text(module)).body:
            if isinstance(node, ast.ClassDef):
                names[node.name] = (module, node)
            elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation) and node.value:
                names[ast.unparse(node.target)] = (module, node.value)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prime_rl.configs"):
                home = f"{self._root}{(node.module or '').replace('.', '/')}.py"
                names |= {each.asname or each.name: (home, each) for each in node.names}


def _default(value: ast.AST) -> str:
    """Return a default as it is written; of a Field its first argument, or its factory."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("Field", "field"):
        for each in [
            *value.args,
            *(word.value for word in value.keywords if word.arg in ("default", "default_factory")),
        ]:
            return ast.unparse(each)
        return ""
    return ast.unparse(value)


def prime_rl(checkouts: Sequence[Checkout]) -> Iterator[Fact]:
    """Yield the keys of prime-rl's RLConfig."""
    yield from Models(checkouts[0], PRIME_RL).facts(f"{PRIME_RL}prime_rl/configs/rl.py", "RLConfig")


def nemo_rl(checkouts: Sequence[Checkout]) -> Iterator[Fact]:
    """Yield the keys of NeMo-RL's exemplar, where its defaults stand, and of classes for what is not in it."""
    yield from _yaml(yaml.compose(checkouts[0].text(NEMO_RL)), "")
    for file, name, places in NEMO_RL_CLASSES:
        tree = ast.parse(checkouts[0].text(file))
        node = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
        for before in places:
            yield from _fields(node, before, Path(file).name)


def _yaml(node: yaml.Node, before: str) -> Iterator[Fact]:
    if not isinstance(node, yaml.MappingNode):
        return
    for name, value in node.value:
        key, line = f"{before}{name.value}", name.start_mark.line + 1
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _yaml(value, f"{key}.")
            continue
        said = value.value if isinstance(value, yaml.ScalarNode) else "[…]" if value.value else "[]"
        yield Fact(key, value.tag.rpartition(":")[2], str(said), f"{Path(NEMO_RL).name}:{line}")


def slime(checkouts: Sequence[Checkout]) -> Iterator[Fact]:
    """Yield the flags of slime and of Megatron-LM."""
    for checkout, folders in zip(checkouts, (SLIME, MEGATRON), strict=False):
        for folder in folders:
            for name in checkout.names(folder):
                yield from _arguments(name, ast.parse(checkout.text(name)))


def _arguments(name: str, tree: ast.AST) -> Iterator[Fact]:
    """Yield what is added to an argparse parser, and the fields of dataclasses that Megatron makes flags of."""
    file = Path(name).name
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "add_argument":
            words = {word.arg: ast.unparse(word.value) for word in node.keywords}
            kind = words.get("type", words.get("action", "str").strip("'\""))
            for given in node.args:
                if isinstance(given, ast.Constant) and str(given.value).startswith("--"):
                    yield Fact(str(given.value), kind, words.get("default", ""), f"{file}:{node.lineno}")
        elif isinstance(node, ast.ClassDef) and "dataclass" in " ".join(map(ast.unparse, node.decorator_list)):
            yield from (fact._replace(key=fact.key.replace("_", "-")) for fact in _fields(node, "--", file))


def _fields(node: ast.ClassDef, before: str, file: str) -> Iterator[Fact]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            default = "" if each.value is None else _default(each.value)
            yield Fact(before + each.target.id, ast.unparse(each.annotation), default, f"{file}:{each.lineno}")


READERS = {"prime-rl": prime_rl, "nemo-rl": nemo_rl, "slime": slime}


def table(trainer: str, checkouts: Sequence[Checkout]) -> str:
    """Return the table of a trainer."""
    facts: dict[str, Fact] = {}
    for fact in READERS[trainer](checkouts):
        known = facts.get(fact.key)
        if known is None:
            facts[fact.key] = fact
        elif known.type != fact.type and trainer == "prime-rl":  # of several classes a discriminator chooses one
            facts[fact.key] = known._replace(type=f"{known.type} | {fact.type}")
    lines = [fact.line() for fact in facts.values()]
    head = [
        f"# Keys of {trainer}: type, default, file and line. Written by docs/tools/trainer_facts.py.",
        f'version = "{_version(trainer, checkouts[0])}"',
        f"commits = {json.dumps([checkout.commit for checkout in checkouts])}",
        "",
        "[keys]",
    ]
    return "\n".join([*head, *lines]) + "\n"


def _version(trainer: str, checkout: Checkout) -> str:
    text = checkout.text(VERSIONS[trainer])
    if trainer == "nemo-rl":
        numbers: Mapping[str, str] = dict(re.findall(r"^(MAJOR|MINOR|PATCH) = (\d+)", text, re.MULTILINE))
        return ".".join(numbers[each] for each in ("MAJOR", "MINOR", "PATCH"))
    found = re.search(r"version\s*=\s*[\"']([\d.]+)", text)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer", choices=READERS)
    parser.add_argument("checkouts", nargs="+", help="FOLDER or FOLDER@COMMIT")
    given = parser.parse_args()
    written = table(given.trainer, [Checkout(path) for path in given.checkouts])
    (TRAINERS / given.trainer.replace("-", "_") / "facts.toml").write_text(written, encoding="utf-8")
