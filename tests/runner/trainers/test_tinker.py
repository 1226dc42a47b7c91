"""What the driver of a Tinker service does without one: tests/tinker trains on a server's own code."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from budgets.errors import InputError, TrainingError
from planner.config import build_request, resolved_values
from planner.config.trainer import TrainerChoice
from planner.proposals import propose
from planner.recipes.schema import Recipe
from planner.store import open_store
from rlplan.actions.configuration import load_configuration
from rlplan.reading.plan_data import new_candidates, new_plan
from runner.grpo.objective import Tokens, objective, token_weights
from runner.policy.scorer import Batch
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.sweep.plan import SweepChoice, sweep_spec
from runner.trainers.tinker.driver import DRIVER
from runner.trainers.tinker.service import averages_of, failure, lacks
from runner.trainers.tinker.training import ServiceUpdater, loss_of
from runner.training.trial import Stopwatch
from tests.runner.trainers.standins import attempt, launched

KEY = "tml-never-stored"


def trial(recipe: Mapping[str, Any] | None = None, machine: Machine | None = None, **options: Any) -> TrialConfig:
    """Return a trial of 16 rollouts a step."""
    return TrialConfig(
        task=TaskChoice(name="sum-easy"),
        recipe=Recipe.model_validate({"name": "plain", **(recipe or {})}),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=1e-3,
        validation=ValidationPlan(problems=10, samples=2, every_rollouts=32),
        machine=machine or Machine(),
        trainer=TrainerChoice(name="tinker", options={"model": "tiny", **options}),
    )


@pytest.mark.parametrize(
    ("recipe", "machine", "options", "named"),
    [
        ({"objective": {"kl": 0.1}}, None, {}, "objective.kl = 0.1, which its losses have not"),
        ({"objective": {"ratio": "sequence"}}, None, {}, r"objective\.ratio = .sequence."),
        ({"objective": {"clip": "soft"}}, None, {}, "objective.clip = 'soft', which it has not"),
        ({"objective": {"entropy": 0.01}}, None, {}, "objective.entropy.*With --approximate"),
        ({}, Machine(lora_alpha=16), {}, "lora_alpha = 16 with --trainer tinker: a service has 32"),
        ({}, None, {"model": None}, r"name its server's model, \[trainer.options\] model"),
        ({}, None, {"base_urll": "x"}, "unknown key 'base_urll'.*base_url"),
    ],
)
def test_what_a_service_cannot_do_is_refused_by_name(
    recipe: dict[str, Any], machine: Machine | None, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        DRIVER.check(trial(recipe, machine, **options))


def test_its_key_goes_to_the_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", KEY)
    config = trial(api_key_env="OTHER_KEY", lora_rank=4)
    assert config.driven_by.secrets == ["OTHER_KEY"]  # so that it is masked wherever words are stored
    launch = launched(config, attempt(tmp_path))
    run = json.loads(launch.files["run.json"])
    assert (run["lora_rank"], run["model"], run["api_key_env"]) == (4, "tiny", "OTHER_KEY")
    assert KEY not in str(launch)


@pytest.fixture
def service() -> Iterator[str]:
    """Yield the address of a server that lists one model to whoever has the key."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            right = self.headers.get("X-API-Key") == KEY
            self.send_response(200 if right else 401)
            self.end_headers()
            self.wfile.write(json.dumps({"supported_models": [{"model_name": "tiny"}]}).encode())

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_a_wrong_key_a_wrong_model_and_a_wrong_address_are_found_before_a_sweep(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    DRIVER.reach(trial(base_url=service))
    with pytest.raises(InputError, match=r"unknown model of .*'tinny': did you mean 'tiny'"):
        DRIVER.reach(trial(base_url=service, model="tinny"))
    with pytest.raises(InputError, match=r"gives no answer .*start it, or set base_url"):
        DRIVER.reach(trial(base_url="http://127.0.0.1:9"))
    monkeypatch.setenv("TINKER_API_KEY", "tml-wrong")
    with pytest.raises(InputError, match=r"refuses the key in TINKER_API_KEY \(401\)") as refusal:
        DRIVER.reach(trial(base_url=service))
    assert "tml-wrong" not in str(refusal.value)


def test_its_trials_need_no_gpu_of_ones_own_and_know_what_tokens_cost(
    service: str, task: TaskChoice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    flags: dict[str, tuple[str, Any]] = {
        "budget.gpu_hours": ("--budget", 50.0),
        "hardware.gpus": ("--gpus", 16),
        "workload.response_tokens": ("--response-tokens", 8),
        "cost.per_million": ("rlplan.toml", {"sample": 0.4}),
        "trainer.name": ("rlplan.toml", "tinker"),
        "trainer.options": ("rlplan.toml", {"base_url": service, "model": "tiny"}),
    }
    resolved = load_configuration(None, None, flags)
    proposal = propose(build_request(resolved))
    with open_store(tmp_path / "rlplan.db") as store:
        row = new_plan(proposal, resolved_values(proposal.request, resolved), [], "test")
        plan = store.plan(store.save_plan(row, new_candidates(proposal), created_at=datetime(2026, 1, 1, tzinfo=UTC)))
        spec = sweep_spec(plan, SweepChoice(problems=task.name, model=task.model))
    assert (spec.resources.gpus, spec.training.machine.nodes) == (0, 1)
    assert spec.training.trainer is not None
    assert spec.training.trainer.options["per_million"]["sample"] == 0.4


class StatusError(Exception):
    """Stands for the SDK's, by its name and its code."""

    def __init__(self, words: str, status_code: int | None = None) -> None:
        super().__init__(words)
        self.status_code = status_code


class APIConnectionError(StatusError):
    """Likewise."""


class APIStatusError(StatusError):
    """Likewise."""


class RateLimitError(APIStatusError):
    """Likewise."""


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (APIStatusError("Unauthorized", 401), "input", "refuses the key in K"),
        (APIStatusError("Not Found", 404), "input", "another version of server and SDK"),
        (APIStatusError("Model not found", 404), "lost", "has dropped the adapter"),
        (ValueError("Error retrieving result: Model model_1 not loaded"), "lost", "has dropped the adapter"),
        (RateLimitError("slow down", 429), "lost", "RateLimitError"),
        (APIConnectionError("refused"), "lost", "APIConnectionError"),
        (APIStatusError("no such loss", 422), "input", "no such loss"),
        (KeyError("bug"), "error", "KeyError"),
    ],
)
def test_an_error_of_a_call_says_whether_another_try_may_help(error: Exception, kind: str, words: str) -> None:
    made = failure("http://s", "train", error, {"api_key_env": "K"})
    assert made.kind == kind
    assert words in str(made)
    assert DRIVER.classify(3, f"…\nrlplan {made.kind}: {made}\n") == (kind, str(made))


def schema(losses: Sequence[str], *, norm: bool) -> dict[str, Any]:
    parts = {
        "ForwardBackwardInput": {"properties": {"loss_fn": {"enum": list(losses)}}},
        "AdamParams": {"properties": {"grad_clip_norm": {}} if norm else {}},
    }
    return {"components": {"schemas": parts}}


OLD = ["cross_entropy", "importance_sampling", "ppo"]


@pytest.mark.parametrize(
    ("published", "objective_", "lacking"),
    [
        ({}, {}, []),
        (schema([*OLD, "cispo"], norm=True), {"clip": "cispo", "against": "sampler"}, []),
        (
            schema(OLD, norm=True),
            {"clip": "cispo", "against": "sampler"},
            ["it has no loss 'cispo', but cross_entropy"],
        ),
        (schema(OLD, norm=True), {"clip_high": 0.28, "against": "sampler"}, ["it clips at 0.2, whatever it is told"]),
        (schema(OLD, norm=True), {"clip_high": 0.28}, []),  # of a ratio that is 1
        (schema(OLD, norm=False), {}, ["it clips no gradients"]),
    ],
)
def test_what_a_server_of_another_version_lacks_is_named(
    published: dict[str, Any], objective_: dict[str, Any], lacking: list[str]
) -> None:
    named = list(lacks(published, trial({"objective": objective_}).recipe, *loss_of(trial({"objective": objective_}))))
    assert len(named) == len(lacking)
    assert all(words in line for words, line in zip(lacking, named, strict=True))


def test_over_what_a_service_averages_is_read_from_what_it_answers() -> None:
    row = {"logprobs": SimpleNamespace(data=[0.0])}
    assert averages_of(SimpleNamespace(metrics={"loss:sum": 1.0}, loss_fn_outputs=[row])) == "sum"
    assert averages_of(SimpleNamespace(metrics={}, loss_fn_outputs=[{**row, "elementwise_loss": row}])) == "mean"
    with pytest.raises(TrainingError, match="by no metric whether"):
        averages_of(SimpleNamespace(metrics={}, loss_fn_outputs=[row]))


class Computing:
    """A service that computes what one does, on log-probabilities of its own, and keeps their gradient."""

    def __init__(self, averages: str, logprobs: torch.Tensor, mask: torch.Tensor) -> None:
        self.averages, self.now, self._mask = averages, logprobs.clone().requires_grad_(), mask
        self.gradient: torch.Tensor | None = None
        self.adam: dict[str, float] = {}

    def datum(self, prompt: list[int], response: list[int], **of_response: list[float]) -> dict[str, Any]:
        return {"prompt": len(prompt) - 1, "length": len(response), "tokens": response, **of_response}

    def _rows(self, data: list[dict[str, Any]]) -> list[torch.Tensor]:
        """Return the log-probabilities of each response, found by its tokens."""
        return [self.now[datum["tokens"][0]][: datum["length"]] for datum in data]

    def logprobs(self, data: list[dict[str, Any]]) -> list[list[float]]:
        return [[0.0] * datum["prompt"] + row.tolist() for datum, row in zip(data, self._rows(data), strict=True)]

    def train(self, data: list[Any], loss: str, bounds: dict[str, float] | None, adam: dict[str, float]) -> Any:
        before, total, self.adam = self.logprobs(data), torch.zeros(()), adam
        for datum, row in zip(data, self._rows(data), strict=True):
            ratio = (row - torch.tensor(datum["logprobs"])).exp()
            worth = torch.tensor(datum["advantages"])
            low, high = (bounds or {}).values() or (0.0, 1e9)
            clipped = ratio.clamp(low, high)
            losses = {
                "importance_sampling": -ratio * worth,
                "ppo": -torch.minimum(ratio * worth, clipped * worth),
                "cispo": -clipped.detach() * worth * row,
            }[loss].sum()
            whole = datum["prompt"] + datum["length"]
            total = total + (losses if self.averages == "sum" else losses / whole / len(data))
        torch.autograd.backward(total)
        self.gradient = self.now.grad
        return before


@pytest.mark.parametrize("averages", ["sum", "mean"])
@pytest.mark.parametrize("aggregation", ["sample", "prompt", "token", "constant"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clip_high": 0.05, "against": "sampler"},
        {"clip": "cispo", "clip_high": 0.1, "clip_low": None, "against": "sampler"},
        {"clip": "none", "truncated_importance": 1.1},
    ],
    ids=["on policy", "clipped", "cispo", "corrected"],
)
def test_its_gradient_is_that_of_our_objective(averages: str, aggregation: str, settings: dict[str, Any]) -> None:
    config = trial({"objective": {"aggregation": aggregation, **settings}, "optimizer": {"clip_norm": 0.5}})
    torch.manual_seed(0)
    lengths = torch.tensor([3, 5, 2, 4])
    mask = torch.arange(5) < lengths[:, None]
    sampler = torch.where(mask, -torch.rand(4, 5), 0.0)
    trainer = torch.where(mask, sampler + 0.2 * torch.randn(4, 5), 0.0)
    batch = Batch(
        prompts=[[7, 8, 9], [7, 8]],
        per_prompt=2,
        tokens=torch.arange(4)[:, None].expand(4, 5).clone(),  # the first token names the row
        mask=mask,
        loss_mask=mask,
        sampler=sampler,
        advantages=torch.tensor([1.0, -1.0, 0.0, 0.0]),
        generated=4,
        generated_tokens=14,
        measured={},
        notes=[],
    )
    service: Any = Computing(averages, trainer, mask)
    updater = ServiceUpdater(config, service, 8)
    updater.prepare([batch], Stopwatch())
    metrics = updater.update(batch, 0)

    own = trainer.clone().requires_grad_()
    objective_ = config.recipe.objective
    weights = token_weights(mask, torch.tensor([0, 0, 1, 1]), aggregation, 8)
    old = sampler if objective_.against == "sampler" else own.detach()
    loss, _ = objective(
        Tokens(own, old, sampler, None, None, batch.advantages, mask, weights, 0.0), config.recipe.objective
    )
    torch.autograd.backward(loss)
    torch.testing.assert_close(service.gradient, own.grad)
    assert metrics["loss"] == pytest.approx(float(loss.detach()), abs=1e-6)
    assert service.adam["grad_clip_norm"] == 0.5
