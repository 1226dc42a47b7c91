"""Shell as people write it, read and never run."""

from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.scripts.shell import Shell, read_shell
from tests.planner.curves.reading_samples import write


def read(text: str, folder: Path = Path("/work")) -> Shell:
    return read_shell(text, folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=8\nexport B=${A}\nrun n=$B  # not this\n", "run n=8"),
        ("run n=${N:-8} m=${M-4} k=${K:=2} again=$K\n", "run n=8 m=4 k=2 again=2"),
        (': "${GPUS:=4}"\nrun gpus=$GPUS\n', "run gpus=4"),
        ("A=1024\nrun b=$((A * 2 + $A / 4)) c=$(( 7 % 4 ))\n", "run b=2304 c=3"),
        ("run \\\n  a=1 \\\n  b=2\n", "run a=1 b=2"),
        ("run \\\n  a=1 \\\n  # b=2 is slower \\\n  c=3\n", "run a=1 c=3"),
        (
            'ARGS=(\n  --lr 1e-6  # high\n  --name "a b"\n)\nARGS+=(--seed 3)\nrun "${ARGS[@]}"\n',
            "run --lr 1e-6 --name a b --seed 3",
        ),
        ('A="x=1 \\\n  y=2"\nrun $A\n', "run x=1 y=2"),
        ("D=a.parquet\nrun f=\"['$D']\" 'g=$D'\n", "run f=['a.parquet'] g=$D"),
        (
            "M=org/Qwen3-8B\nrun name=${M##*/} ${M%/*} ${M/org/our} ${M,,} ${M:4:5}\n",
            "run name=Qwen3-8B org our/Qwen3-8B org/qwen3-8b Qwen3",
        ),
        ('if [ -z "$GPUS" ]; then\n GPUS=8\nfi\nrun $GPUS\n', "run 8"),
        (
            "B=megatron\nif [[ $B == fsdp* || $B == ddp ]]; then A=1; elif [ $B = megatron ]; then A=2; fi\nrun $A\n",
            "run 2",
        ),
        (
            "D=${D:-$(python3 -c x 2>/dev/null && echo npu || echo gpu)}\ncase $D in\n gpu) N=8 ;;\nesac\nrun n=$N\n",
            "run n=8",
        ),
        (
            "#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8 # each\nrun n=$SLURM_NNODES g=${SLURM_GPUS_PER_NODE:-1}\n",
            "run n=4 g=8",
        ),
        ("case $1 in\n big|large) N=64 ;;\n *) N=8 ;;\nesac\nrun n=$N\n", "run n=8"),
        ('GPUS=$(nvidia-smi -L | wc -l)\nif [ "$GPUS" -le 0 ]; then GPUS=8; fi\nrun $GPUS\n', "run 8"),
        ('while [ $# -gt 0 ]; do N=$1; shift; done\n[ -n "$N" ] && run no\nrun n=${N:-8} "$@"\n', "run n=8"),
        ("read -r -d '' CMD <<EOF\nrun --a 1 \\\n  --b 2\nEOF\n$CMD\n", "run --a 1 --b 2"),
        ('A=4\nsrun --nodes=1 bash -c "cd x && run n=$A m=\\"b c\\""\n', "run n=4 m=b c"),
        ("C='run --x 1'\neval \"$C\"\n", "run --x 1"),
        ("for n in 8 16; do\n  run n=$n\ndone\n", "run n=8"),
        ("f() {\n  local k=${1:-3}\n  run k=$k\n}\nf\n", "run k=3"),
        ("run a=1 2>&1 | tee log.txt\n", "run a=1"),
        ("CUDA_VISIBLE_DEVICES=0,1 run --x\n", "run --x"),
        ("cat > c.yaml <<EOF\nn: 8\nEOF\nrun --config c.yaml\n", "run --config c.yaml"),
    ],
)
def test_a_command_is_what_the_shell_would_start(text: str, words: str) -> None:
    assert next(" ".join(each.words) for each in read(text).commands if each.words[0] == "run") == words


def test_what_would_be_run_stands_with_its_name(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    shell = read(f'A=$(touch {mark}; nproc)\nB=`touch {mark}`\neval "touch {mark}"\nrun n=$A m=$B $(touch {mark})\n')
    assert shell.commands[-1].words == ("run", "n=$(touch)", "m=$(touch)", "$(touch)")
    assert not mark.exists()


def test_scripts_that_it_names_are_read_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "models" / "small.sh", "MODEL=(--layers 4)\n")
    write(tmp_path / "base.sh", 'run --base "$@"\n')
    text = 'DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\nsource "$DIR/models/small.sh"\nrun ${MODEL[@]}\n'
    assert read(text, tmp_path).commands[-1].words == ("run", "--layers", "4")
    assert read("bash base.sh n=4\n", tmp_path).commands[-1].words == ("run", "--base", "n=4")
    write(tmp_path / "self.sh", "source self.sh\nrun\n")
    assert read("source self.sh\n", tmp_path).notes


DOUBLED = "A=xxxxxxxxxxxxxxxx\n" + "A=$A$A$A$A$A$A$A$A\n" * 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DOUBLED, "variables grow"),
        ("run " + '"$(' * 200, "nested"),
        ("run " + "${A:-" * 60 + "}" * 60, "nested"),
        ("run " + '"$("`${' * 2000, "nested|do not end"),
        ("A=(" * 900 + ")" * 900, "nested"),
    ],
)
def test_what_grows_without_end_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(text)


@pytest.mark.parametrize(
    "text", ["run a=$((9**9**9))\n", "run a=$((" + "(" * 400 + "))\n", "run '\n", "if ] then fi )\n", "${\n", "$"]
)
def test_what_makes_no_sense_is_left_as_it_is(text: str) -> None:
    read(text)
