"""What no command can do is refused with what is wrong and what to do, and leaves nothing behind."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.store import open_store
from planner.store.finals import Final
from planner.store.schema import Plan, Sweep
from tests.planner.replay.tables import grid
from tests.planner.store import samples
from tests.planner.store.samples import NOON
from tests.rlplan.conftest import Run
from tests.rlplan.fit_samples import write as write_curve
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.stored_rows import rows
from tests.rlplan.test_replay_command import write as write_runs
from tests.runner.trainers.conftest import save_shape

READERS = ("status --all", "recommend", "rank", "decisions", "export new.csv", "preview", "pause", "stop")
DRIVERS = ("sweep", "launch", "resume", "retry", "sweep --dry-run", "launch --dry-run")
PROPOSE, PLAN = "propose --db new.db", "propose --db new.db --budget 5000"
REPLAY = "replay runs.csv --budget 100 --target 100"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a sweep that has ended, a later plan, a curve, recorded runs, and what is none of these."""
    tmp_path = tmp_path_factory.mktemp("place")
    with open_store(ended(tmp_path / "rlplan.db")) as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    open_store(tmp_path / "empty.db").close()
    write_curve(tmp_path / "one.csv")
    write_runs(tmp_path / "runs.csv", grid(cells=8, seeds=2, points=20))
    (tmp_path / "nothing.csv").write_text("")
    (tmp_path / "negative.csv").write_text("step,score\n-2,0.5\n-1,0.6\n")
    (tmp_path / "typo.toml").write_text("[objective]\nclip_hgh = 0.1\n")
    (tmp_path / "cosine.toml").write_text('[optimizer]\nlearning_rate_schedule = "cosine"\n')
    (tmp_path / "reward.csv").write_text("step,reward\n10,-1\n20,5\n")
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    yield tmp_path
    assert [len(rows(tmp_path / "rlplan.db", kind)) for kind in (Plan, Sweep, Final)] == [2, 1, 0]


def names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm")))


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (f"{PROPOSE} --budget 0", 2, "rlplan: --budget '0' is not a number of GPU-hours above zero"),
        (f"{PROPOSE} --budget nan", 2, "rlplan: --budget 'nan' is not a number"),
        (f"{PROPOSE} --budget 5k", 2, "--budget '5k' is not a number of GPU-hours above zero: write it out"),
        (f"{PROPOSE} --budget 1e12", 2, "at most 1,000,000,000"),
        (PROPOSE, 2, "no budget given: say how many GPU-hours there are, such as --budget 5000"),
        (f"{PLAN} --learn-from missing.db", 2, "--learn-from missing.db: there is no such file, and no sweep in a new"),
        ("propose --budget 5000 --learn-from sweep-9", 2, "there is no such file, and there is no sweep 'sweep-9'"),
        (f"{PLAN} --learn-from runs.csv", 2, "--learn-from runs.csv is no database: give a database, a sweep of this"),
        (f"{PLAN} --learn-from none --learn-from rlplan.db", 2, "leave out the one or the other"),
        (f"{PLAN} --learn-from empty.db", 2, "--learn-from empty.db: no step of qwen3-8b on h100 was measured there"),
        (f"{PROPOSE} --task sum-easy", 2, "how many GPU-hours there are, such as --budget 0.03"),
        ("report", 2, "Missing argument 'out', as in `rlplan report report.html sweep-1`. Run `rlplan report --help`"),
        ("fit", 2, "Missing argument 'files', as in `rlplan fit run.csv "),
        (f"{PROPOSE} --budget 3", 4, "The smallest budget that would do is"),
        ("propose --budget 3 --db ~/new.db", 4, "The smallest budget that would do is"),
        ("propose --budget 3 --db sqlite:///new.db", 4, "The smallest budget that would do is"),
        ("propose --budget 5000 --db no/such/dir/x.db", 2, "its directory does not exist. Run: mkdir -p"),
        ("propose --budget 5000 --db .", 2, "is a directory"),
        (f"{PLAN} --gpu h10", 2, "unknown GPU 'h10': did you mean 'h100'"),
        (f"{PLAN} --model qwen3-9b", 2, "unknown model 'qwen3-9b': did you mean 'qwen3.5-9b'"),
        (f"{PLAN} --response-tokens 99999", 2, "exceed the context of qwen3-8b, 40,960"),
        (f"{PLAN} --model qwen2.5-72b --gpus 2", 2, "does not fit 2 h100"),
        (f"{PLAN} --task sum-eazy", 2, "unknown task 'sum-eazy': did you mean 'sum-easy'"),
        (f"{PLAN} --config none.toml", 2, "none.toml does not exist; `rlplan init` writes one"),
        (f"{PLAN} --budgett 1", 2, "No such option: --budgett"),
        (f"{PLAN} --budgett 1", 2, "Run `rlplan propose --help`"),
        (f"{PLAN} --gpus many", 2, "rlplan: --gpus 'many' is not a whole number: write it out"),
        (f"{PLAN} --champion 16x128", 2, "--champion: '16x128' does not name n (2 or more) and B"),
        (f"{PLAN} --format xml", 2, "'xml' is not one of 'table', 'json', 'csv'"),
        (f"{PLAN} --pass-rate 1.5", 2, "--pass-rate: workload.pass_rate = 1.5 should be less than 1"),
        (f"{PLAN} --recipe none.toml", 2, "recipe none.toml does not exist; shipped are cispo, dapo"),
        (f"{PLAN} --recipe typo.toml", 2, "unknown key 'objective.clip_hgh': did you mean 'clip_high'"),
        (f"{PLAN} --recipe cosine.toml", 2, "depends on the run's length"),
        ("launch plan-2 --seed -1", 2, "--seed -1: it must be at least 0"),
        ("launch plan-2 --row 1.5", 2, "--row '1.5' is not a whole number"),
        ("launch plan-2 --learning-rate 0", 2, "--learning-rate 0: it must be above 0"),
        ("sweep --task sum-easy --budget 1 --device gpu", 2, "machine.device = 'gpu' should be 'cpu' or 'cuda'"),
        (f"{PLAN} --recipe grop", 2, "unknown recipe 'grop': did you mean 'grpo'"),
        ("rank sweep-9", 3, "there is no sweep or plan 'sweep-9'; there are: plan-1, plan-2, sweep-1"),
        ("rank --sort scor", 2, "unknown sort key 'scor': did you mean 'score'"),
        ("rank --status puased", 2, "unknown status 'puased': did you mean 'paused'"),
        ("rank --where n16", 2, "write NAME=VALUE, such as n=16"),
        ("rank --where colour=red", 2, "unknown column in --where 'colour'"),
        ("rank sweep-1 --sweep sweep-2", 2, "leave one of them out"),
        ("rank --top 0", 2, "--top"),
        ("recommend sweep-9", 3, "there is no sweep 'sweep-9'"),
        *((f"{verb} --db none.db", 3, "there is no results database") for verb in (*READERS, *DRIVERS)),
        ("status sweep-9", 3, "there is no sweep 'sweep-9'; there are: sweep-1"),
        ("status --all --db empty.db", 3, "Run: rlplan sweep"),
        ("status n8 --db empty.db", 3, "there is no trial 'n8'"),
        ("recommend --target 0", 2, "target '0' is not a number of GPU-hours above zero"),
        ("recommend --target much", 2, "such as --target 5000"),
        ("recommend --target 3 --budget 4", 2, "leave one of them out"),
        ("recommend --budget 0.001", 4, "leaves nothing for a final run"),
        ("recommend --target 0.0000001", 4, "do not pay for one update step"),
        ("launch plan-9", 3, "there is no sweep or plan 'plan-9'; there are: plan-1, plan-2, sweep-1"),
        ("launch --validations 0", 2, "--validations 0"),
        ("launch --allocation n=4", 2, "give the rollouts per prompt and the prompts"),
        ("launch --allocation n=3,B=5", 2, "more: `rlplan rank sweep-1` lists them"),
        ("launch plan-2 --print verll", 2, "did you mean 'verl'"),
        ("launch plan-2 --print verl --row 900", 2, "rows 1 to "),
        ("launch plan-2 --print verl --allocation n=3,B=7", 2, "plan-2 has no such row; nearest are n="),
        ("launch --print verl --allocation n=3,B=7", 2, "sweep-1 has no such row; nearest are n="),
        ("launch plan-2 --print verl --row 1 --allocation n=3,B=7", 2, "--allocation n=3,B=7"),
        ("propose --budget 500 --gpus 7", 2, "--gpus 7: the 7 GPUs of a run"),
        ("propose --budget 500 --gpus 24 --gpus-per-trial 7", 2, "give 4 or 8"),
        ("launch plan-2 --print verl --switch", 2, "--switch is for a run"),
        ("launch plan-2 --print verl --problems sums.jsonl", 2, "--problems is for a run"),
        ("launch plan-2 --allocation n=3,B=7", 2, "plan-2 has no such row; nearest are n="),
        ("dashboard --token short", 2, "--token auto"),
        ("dashboard --host http://here", 2, "leave --host out"),
        ("dashboard --db none.db", 3, "there is no results database"),
        ("launch --from-best", 3, "sweep-1 has no final run to go back in"),
        ("launch --from-best --switch", 2, "leave --switch and --allocation out"),
        ("launch --from-best --allocation n=4,B=4", 2, "leave --switch and --allocation out"),
        ("launch --learning-rate 1e-6", 2, "give --from-best"),
        ("launch --from-best --learning-rate 0", 2, "--learning-rate 0"),
        ("launch --from-best --learning-rate -1e-6", 2, "--learning-rate -1e-06"),
        *((f"{line} --rehearse --dry-run", 2, "--rehearse tries it here and now") for line in ("sweep", "launch")),
        ("resume --slurm --wait 600", 2, "--wait is for a driver here"),
        *((line, 2, "give --slurm too") for line in ("sweep --sbatch=--qos=a", "resume --dry-run", "retry --dry-run")),
        ("report new.html sweep-9", 3, "there is no sweep or plan 'sweep-9'"),
        ("report .", 2, "is a folder"),
        ("report report.pdf", 2, "does not end in .html"),
        ("report nowhere/report.html", 2, "mkdir -p"),
        ("watch none.csv --once", 3, "none.csv"),
        ("watch one.csv --once --every 0", 2, "--every 0"),
        ("watch one.csv --once --end -1", 2, "--end -1"),
        ("watch one.csv --once --y loss", 2, "loss"),
        ("decisions --action pruned", 2, "did you mean 'prune'"),
        ("decisions --since yesterday", 2, "such as 30m, 2h or 1d"),
        ("status --all sweep-1", 2, "leave out the name of one"),
        ("status --all --watch", 2, "leave out the name of one and --watch"),
        ("status --watch --top 3", 2, "--watch shows what finds room"),
        ("status --status prun", 2, "did you mean 'pruned'"),
        ("status --sort cost", 2, "unknown sort key 'cost'"),
        ("status --all --sort step", 2, "unknown sort key 'step'"),
        ("export points.xlsx", 2, "ends in neither .csv nor .json"),
        ("export points.csv --format json", 2, "contradict each other"),
        ("export points.csv --what point", 2, "did you mean 'points'"),
        ("export - --what all", 2, "all tables go into one JSON document"),
        ("export new.csv --for replays", 2, "did you mean 'replay'"),
        ("export new.csv --for replay --what trials", 2, "leave out --what trials"),
        ("export", 2, "nothing says where to write"),
        ("export no/such/folder.csv", 2, "cannot be written: No such file or directory"),
        ("export points.csv --sweep sweep-9", 3, "there is no sweep 'sweep-9'"),
        ("export /dev/null --what points --force", 2, "is no file that can be written"),
        ("preview plan-9", 3, "there is no plan 'plan-9'"),
        ("preview plan-1 --draws 0", 2, "--draws 0: it must be at least 1"),
        ("preview plan-1 --pilot-fractions 0.1,-1", 2, "--pilot-fractions 0.1,-1: give shares"),
        ("preview plan-1 --policy best", 2, "unknown policy 'best'"),
        ("preview plan-1 --seed -1", 2, "--seed -1"),
        ("preview plan-1 --pilot-fractions 0.00001", 4, "plan-1: a pilot fraction of 1e-05 is left out"),
        ("price -n 0", 2, "n = 0"),
        ("price --mean-response-tokens 9000", 2, "9000"),
        ("price --model qwen3-9b", 2, "qwen3-8b"),
        ("price --gpus 1 --model llama-3.1-70b", 2, "does not fit"),
        ("price none.csv", 3, "no file"),
        ("price --forget run-1 --db none.db", 3, "there is no database"),
        ("adopt gone --gpu h100", 3, "no run 'gone'"),
        ("price notes.csv", 2, "model_shape"),
        ("fit missing.csv", 3, "no file 'missing.csv'"),
        ("fit missing.csv --law power", 3, "no file 'missing.csv'"),
        ("fit missing.csv nothing.csv", 2, "no file 'missing.csv'"),
        ("compare missing.csv gone.csv", 3, "no file 'missing.csv'; no file 'gone.csv'"),
        ("replay missing.csv --budget 5 --target 9", 3, "no file 'missing.csv'"),
        ("fit nothing.csv", 2, "is empty"),
        ("fit negative.csv", 2, "no usable point at positive x"),
        ("fit one.csv --fit-fraction 0.5 --fit-until 3", 2, "--fit-fraction 0.5 and --fit-until 3"),
        ("fit one.csv --fit-fraction 0", 2, "--fit-fraction 0:"),
        ("fit one.csv --fit-fraction half", 2, "--fit-fraction 'half'"),
        ("fit one.csv --fit-until -3", 2, "--fit-until -3:"),
        ("fit one.csv --fit-until 0.5", 2, "--fit-until 0.5 leaves no point"),
        ("fit one.csv --predict-at later", 2, "--predict-at 'later'"),
        ("fit one.csv --predict-at 0", 2, "--predict-at '0'"),
        ("fit one.csv --cut early", 2, "--cut"),
        ("fit one.csv --cut -1", 2, "--cut -1: it must be at least 0"),
        ("fit one.csv --level 90", 2, "--level 90"),
        ("fit one.csv --plot fit.png", 2, "--plot fit.png"),
        ("fit one.csv --plot nowhere/fit.html", 2, "no folder 'nowhere'"),
        *((f"fit one.csv --{axis} nope", 2, "unknown column 'nope'") for axis in ("x", "y", "by")),
        ("fit one.csv --answers many", 2, "--answers 'many' is not a whole number"),
        ("fit one.csv --answers 0", 2, "--answers 0: it must be at least 1"),
        ("fit reward.csv --answers 100", 2, "only pass rates have a binomial error"),
        ("fit one.csv --law powr", 2, "did you mean 'power'"),
        ("fit one.csv --law group-size", 2, "needs 'rollouts_per_prompt' (rollouts per prompt), beside compute and"),
        ("fit one.csv --law sigmoid --answers 64", 2, "--answers is not for --law sigmoid, which weighs all points"),
        ("price runs.csv --model qwen3-8b", 2, "a table of runs takes no --model: leave it out"),
        ("price --forget sweep-1 --gpus 8 --gpu h100", 2, "--forget takes no --gpu, --gpus: leave them out"),
        ("propose --budget", 2, "Run `rlplan propose --help`"),
        ("compare one.csv --by recipe", 2, "unknown column 'recipe'"),
        ("compare one.csv --by gpu_hours --x gpu_hours", 2, "gpu_hours"),
        ("replay runs.csv --budget 0 --target 100", 2, "--budget 0: give GPU-hours above 0"),
        ("replay runs.csv --budget x --target 100", 2, "--budget 'x' is not a number"),
        ("replay runs.csv --budget 5 --target -1", 2, "--target -1: it must be above 0"),
        ("replay runs.csv --target 100", 2, "replay needs --total GPU-HOURS"),
        ("replay runs.csv --budget 0.01 --target 100", 4, "0.01 GPU-hours pay for no score of any trial"),
        (f"{REPLAY} --policy best", 2, "unknown policy 'best'"),
        (f"{REPLAY} --workers 0", 2, "--workers 0: it must be at least 1"),
        (f"{REPLAY} --repeat 0", 2, "--repeat 0: it must be at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, said: str
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    before = names(place)
    ran = run(*shlex.split(line))
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert said in " ".join(ran.err.split())
    assert ran.err.startswith("rlplan: ")
    assert "Value error" not in ran.err
    assert ran.err.count("\n") == 1
    assert names(place) == before


@pytest.mark.parametrize("size", ["4b", "72b"])
def test_another_model_than_the_plan_s_is_refused_before_anything_is_stored(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.jsonl").write_text("".join(f'{{"prompt": "what is {k}", "answer": "4"}}\n' for k in range(500)))
    run("propose", "--budget", "5000", "--explore")
    sweep = ("sweep", "plan-1", "--trainer", "trl", "--problems", "sums.jsonl", "--reward", "exact", "--model")
    refused = run(*sweep, save_shape(tmp_path / "other", size))
    assert refused.code == 2
    assert "billion weights, and plan-1 is priced for qwen3-8b with 8.19. Plan for it: rlplan propose" in refused.err
    assert rows("rlplan.db", Sweep) == []
    # The planned size fits, with vLLM, which generates on GPUs unless --engine says otherwise.
    assert run(*sweep, save_shape(tmp_path / "planned", "8b"), "--dry-run", "--approximate").code == 0
