"""One adapter on a Tinker service, by the service's own SDK: it samples, trains and saves, and its tokens are counted.

Whatever goes wrong with a call becomes a TrainingError whose kind says whether another try may help.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from budgets.errors import TrainingError
from planner.recipes.schema import Recipe

T = TypeVar("T")
KINDS = ("prefill", "sample", "train")  # of tokens, as [cost] per_million prices them
ADAPTER = "adapter.txt"  # in the trial's folder: the name of its adapter on the service
CAPABILITIES = "/api/v1/get_server_capabilities"
_REFUSED, _NOT_FOUND = (401, 403), 404
_GONE = ("not loaded", "model not found", "session not found")  # an adapter that the service has dropped
_FULL = "maximum number"  # of adapters; those of sessions that ended are dropped after a while
_LOOK_SECONDS = 30.0  # for one answer to a plain request


class Service:
    """A session with one LoRA adapter."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        """Open a session; `run` is what the driver has written."""
        import tinker  # noqa: PLC0415  (no part of rlplan)

        self._run, self._types = run, tinker.types
        self._seconds = float(run["call_seconds"])
        self._threads = ThreadPoolExecutor(1, "calling")
        self.schema = _schema(run["base_url"])
        self.tokens = dict.fromkeys(KINDS, 0)
        self._key = os.environ.get(run["api_key_env"])
        self._client: Any = self._called(
            "open a session", lambda: tinker.ServiceClient(base_url=run["base_url"], api_key=self._key)
        )
        self._training: Any = None
        self._sampler: Any = None
        self._saved: dict[str, str] = {}
        self.averages: str | None = None  # over what the service averages a loss; None as long as it has shown nothing

    def open_adapter(self, checkpoint: str | None) -> None:
        """Create the trial's adapter, as a checkpoint has it, with its optimizer, or anew."""
        run, former = self._run, Path(ADAPTER)
        if former.exists():  # of an attempt that was killed
            unload(run["base_url"], self._key, former.read_text(encoding="utf-8"))
        self._training = self._called(
            "create an adapter",
            lambda: self._client.create_lora_training_client(
                run["model"], rank=run["lora_rank"], seed=run["seed"], train_unembed=False
            ),
        )
        former.write_text(self._training.model_id, encoding="utf-8")
        if checkpoint is not None:
            try:
                self._called("load a checkpoint", lambda: self._training.load_state_with_optimizer(checkpoint).result())
            except TrainingError as error:
                raise error if error.kind == "lost" else TrainingError("checkpoint", str(error)) from error
        self._sampler = None

    def save(self, name: str) -> str:
        """Save weights and optimizer under a name, and return where; all but the newest two are removed."""
        if name not in self._saved:
            self._saved[name] = self._called("save", lambda: self._training.save_state(name).result()).path
            for old in list(self._saved)[:-2]:
                with suppress(Exception):  # a server that cannot remove keeps them
                    path = self._saved.pop(old)
                    self._client.create_rest_client().delete_checkpoint_from_tinker_path(path).result(self._seconds)
        return self._saved[name]

    def weights_changed(self) -> None:
        """Have the next answers come from the adapter as it is then."""
        self._sampler = None

    def sample(self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], **how: Any) -> list[Any]:
        """Return `count` responses to each prompt, with all calls in flight at once."""
        types = self._types
        if self._sampler is None:
            self._sampler = self._called("hand over the weights", self._training.save_weights_and_get_sampling_client)
        calls = [
            self._sampler.sample(
                types.ModelInput.from_ints(list(prompt)), count, types.SamplingParams(seed=seed, **how)
            )
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        rows = [row for reply in self._awaited("sample", calls) for row in reply.sequences]
        self.tokens["prefill"] += count * sum(map(len, prompts))
        self.tokens["sample"] += sum(len(row.tokens) for row in rows)
        return rows

    def datum(self, prompt: Sequence[int], response: Sequence[int], **of_response: Sequence[float]) -> Any:
        """Return a rollout as the service trains on it; of the prompt's tokens nothing is learnt."""
        whole, before = [*prompt, *response], [0.0] * (len(prompt) - 1)
        inputs = {name: [*before, *values] for name, values in of_response.items()}
        return self._types.Datum(
            model_input=self._types.ModelInput.from_ints(whole[:-1]),
            loss_fn_inputs={"target_tokens": whole[1:], **inputs},
        )

    def logprobs(self, data: Sequence[Any]) -> list[list[float]]:
        """Return the trainer's log-probabilities of every token, by a pass without gradient."""
        (output,) = self._awaited("score", [self._training.forward(list(data), "importance_sampling")])
        self.tokens["prefill"] += self._length(data)
        return self._read(output)

    def train(
        self, data: Sequence[Any], loss: str, config: Mapping[str, float] | None, adam: Mapping[str, float]
    ) -> list[list[float]]:
        """Make one optimizer step, and return the log-probabilities before it."""
        both = [
            self._training.forward_backward(list(data), loss, config),
            self._training.optim_step(self._types.AdamParams(**adam)),
        ]
        output, _ = self._awaited("train", both)
        self.tokens["train"] += self._length(data)
        self.weights_changed()
        return self._read(output)

    def _read(self, output: Any) -> list[list[float]]:
        if self.averages is None:
            self.averages = averages_of(output)
        return [list(row["logprobs"].data) for row in output.loss_fn_outputs]

    @staticmethod
    def _length(data: Sequence[Any]) -> int:
        return sum(datum.model_input.length for datum in data)

    def _awaited(self, what: str, calls: Sequence[Any]) -> list[Any]:
        """Return the results of calls that are in flight."""
        return self._called(what, lambda: [call.result() for call in calls])

    def _called(self, what: str, call: Callable[[], T]) -> T:
        """Return what a call gives; TrainingError where it fails, or takes too long."""
        where = self._run["base_url"]
        made: Future[T] = self._threads.submit(call)
        try:
            return made.result(self._seconds)
        except FutureTimeoutError as error:
            if made.done():
                raise failure(where, what, error, self._run) from error
            seconds = f"{self._seconds:g} s ([trainer.options] call_seconds)"
            raise TrainingError("lost", f"{where} gave no answer within {seconds}, asked to {what}") from error
        except Exception as error:
            raise failure(where, what, error, self._run) from error


def failure(where: str, what: str, error: BaseException, run: Mapping[str, Any]) -> TrainingError:
    """Return what an error of the SDK means."""
    status, words = getattr(error, "status_code", None), " ".join(str(error).split())[:400]
    if status in _REFUSED:
        return TrainingError("input", f"{where} refuses the key in {run['api_key_env']} ({status}): set a valid one")
    if any(phrase in words.lower() for phrase in _GONE):
        return TrainingError("lost", f"{where} has dropped the adapter, asked to {what}: {words}")
    if _FULL in words.lower():
        return TrainingError("lost", f"{where} has no room for another adapter, asked to {what}: {words}")
    if status == _NOT_FOUND:
        return TrainingError("input", f"{where} cannot {what}: another version of server and SDK? {words}")
    names = {kind.__name__ for kind in type(error).__mro__}
    passing = {"APIConnectionError", "RateLimitError", "InternalServerError", "TimeoutError", "RetryableException"}
    if names & passing:
        return TrainingError("lost", f"{where} failed when asked to {what}: {type(error).__name__}: {words}")
    kind = "input" if names & {"APIStatusError", "APIResponseValidationError", "TinkerError"} else "error"
    return TrainingError(kind, f"{where} cannot {what}: {type(error).__name__}: {words}")


def lacks(schema: Mapping[str, Any], recipe: Recipe, loss: str, bounds: Mapping[str, float] | None) -> Iterator[str]:
    """Yield what of a recipe a server has not, where it publishes the schema of its requests, as the open ones do."""
    parts = schema.get("components", {}).get("schemas", {})
    losses = parts.get("ForwardBackwardInput", {}).get("properties", {}).get("loss_fn", {}).get("enum", [loss])
    if loss not in losses:
        yield f"objective.clip: it has no loss '{loss}', but {', '.join(losses)}"
    elif bounds is not None and "cispo" not in losses and [*bounds.values()] != [0.8, 1.2]:
        yield "objective.clip_low and clip_high: it clips at 0.2, whatever it is told"
    if recipe.optimizer.clip_norm is not None and "grad_clip_norm" not in parts.get("AdamParams", {}).get(
        "properties", ["grad_clip_norm"]
    ):
        yield 'optimizer.clip_norm: it clips no gradients; set "none"'


def averages_of(output: Any) -> str:
    """Return over what a service averages a loss: 'sum' as Tinker documents, or 'mean' as SkyRL does in JAX.

    The mean is over the tokens of each sequence, prompt and response, then over sequences.
    """
    if any(name.endswith(":sum") for name in output.metrics):
        return "sum"
    if output.loss_fn_outputs and "elementwise_loss" in output.loss_fn_outputs[0]:
        return "mean"
    raise TrainingError("input", "the service says by no metric whether it sums or averages the losses of tokens")


def models_of(base_url: str, key: str | None, key_name: str) -> list[str] | None:
    """Return the models that a service trains, by a plain request; None where it does not list them.

    TrainingError of the kind `input` for a wrong key, and `lost` where nobody answers.
    """
    try:
        reply = _fetched(base_url + CAPABILITIES, key)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _REFUSED:
            refused = f"{base_url} refuses the key in {key_name} ({error.code}): set a valid one"
            raise TrainingError("input", refused) from error
        return None
    except (OSError, ValueError) as error:
        raise TrainingError("lost", f"{base_url} gives no answer ({error}): start it, or set base_url") from error
    return [model["model_name"] for model in reply.get("supported_models", [])] or None


def unload(base_url: str, key: str | None, adapter: str) -> None:
    """Have a service drop an adapter that nobody trains any more; one that cannot does so with its session."""
    with suppress(OSError, ValueError):
        _fetched(f"{base_url}/api/v1/unload_model", key, {"model_id": adapter, "type": "unload_model"})


def _schema(base_url: str) -> dict[str, Any]:
    """Return a server's own description of its requests; nothing where it publishes none."""
    with suppress(OSError, ValueError):
        return _fetched(f"{base_url}/openapi.json", None)
    return {}


def _fetched(url: str, key: str | None, asked: Mapping[str, Any] | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", **({"X-API-Key": key} if key else {})}
    request = urllib.request.Request(url, None if asked is None else json.dumps(asked).encode(), headers)
    with urllib.request.urlopen(request, timeout=_LOOK_SECONDS) as reply:
        found: dict[str, Any] = json.loads(reply.read())
    return found
