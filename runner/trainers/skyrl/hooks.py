"""What SkyRL's trainers say and save for rlplan, in SkyRL's interpreter; the asynchronous one has its batches in turn.

By itself it trains what is ready first, so that slow responses get older than its bound, which it says and lets be.
"""

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.trainers.trainer_process import MetricsWriter, group_scores

SOURCE = "rlplan"  # of the problems


def follower(base: Any, run: dict[str, Any], folder: Path) -> Any:
    """Return a callback that has it saved from time to time, and says what every step did."""

    class Follower(base):
        """Writes the lines that rlplan reads."""

        def __init__(self) -> None:
            self._metrics_writer = MetricsWriter(folder, run)

        def on_train_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Say that start-up is over, and where it stands."""
            self._metrics_writer.begin(callback_input.global_step)

        def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Ask for a save within a long segment, and where rlplan does; a segment's end is saved anyway."""
            if self._metrics_writer.save_is_due(callback_input.global_step):
                control.should_save = True

        def on_save(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Note when."""
            self._metrics_writer.saved_at = time.monotonic()

        def on_log(self, trainer: Any, callback_input: Any, control: Any) -> None:
            """Say what SkyRL logs."""
            say_step(
                self._metrics_writer, trainer.cfg.trainer.export_path, callback_input.global_step, callback_input.logs
            )

    return Follower


def say_step(writer: MetricsWriter, exports: str, step: int, logs: dict[str, Any]) -> None:
    """Say what SkyRL logs of a step, with the score of every sample of a validation."""
    scored = any(name.startswith("eval/") for name in logs)
    writer.say(step, logs, **({"scores": group_scores(scores_in(exports, step))} if scored else {}), whole=True)


def scores_in(exports: str, step: int) -> Iterator[tuple[int, float]]:
    """Yield the place and the score of each sample of a validation, from SkyRL's own dump of them."""
    dump = Path(exports) / "dumped_evals" / f"global_step_{step}_evals" / f"{SOURCE}.jsonl"
    for line in dump.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["env_extras"]["number"], sum(row["score"]) if isinstance(row["score"], list) else row["score"]


def ahead(base: Any, loader: Any, run: dict[str, Any], folder: Path) -> Any:
    """Return SkyRL's asynchronous trainer with what `follower` and `in_order` do for its other one."""

    class Ahead(base):
        """Trains the prompts in turn, and saves, says and scores where that is due."""

        def __init__(self, **arguments: Any) -> None:
            self._metrics_writer = MetricsWriter(folder, run)
            self._turns: InTurn | None = None
            super().__init__(**arguments)
            one_by_one(self.async_train_dataloader, self._staleness_manager)
            self.tracker.log = saying(self.tracker.log, self._metrics_writer, self.cfg.trainer.export_path)

        def _build_train_dataloader_and_compute_training_steps(self) -> None:
            dataset = self.train_dataset
            self.train_dataloader = loader(dataset, 1, shuffle=False, collate_fn=dataset.collate_fn)
            self.num_steps_per_epoch = len(dataset) // self.mini_batch_size
            self.total_training_steps = self.num_steps_per_epoch  # its last step alone would be scored out of turn

        def init_weight_sync_state(self) -> None:
            """Say where it stands, which it knows by then."""
            super().init_weight_sync_state()
            self._metrics_writer.begin(self.global_step)

        async def _collect_generation_mini_batch(self, buffer: Any, done: Any) -> Any:
            if self._turns is None:
                self._turns = InTurn(buffer, len(self.async_train_dataloader.get_consumed_uids_list()))
            return await super()._collect_generation_mini_batch(self._turns, done)

        def save_checkpoints(self) -> str:
            """Save where that is due; at its end SkyRL asks once more, by the number of the next step."""
            last = self.global_step == run["to_step"]
            if self.global_step > run["to_step"] or not (last or self._metrics_writer.save_is_due(self.global_step)):
                return ""
            saved: str = super().save_checkpoints()
            self._metrics_writer.saved_at = time.monotonic()
            return saved

    return Ahead


def saying(log: Any, writer: MetricsWriter, exports: str) -> Any:
    """Return what logs, and says all of a step once that is whole."""
    logged: dict[str, Any] = {}

    def say(logs: dict[str, Any], step: int, commit: bool = False) -> None:
        log(logs, step=step, commit=commit)
        logged.update(logs)
        if commit:
            say_step(writer, exports, step, logged)
            logged.clear()

    return say


class InTurn:
    """The groups that have been generated, taken out in the order of their prompts; SkyRL takes them as they come."""

    def __init__(self, buffer: Any, first: int) -> None:
        """Take the groups of a buffer, from the prompt at this place on."""
        self._buffer, self._next, self._early = buffer, first, dict[str, Any]()

    def qsize(self) -> int:
        """Return how many there are."""
        return int(self._buffer.qsize()) + len(self._early)

    def empty(self) -> bool:
        """Whether the next one is not there yet."""
        while not self._buffer.empty():
            self._keep(self._buffer.get_nowait())
        return str(self._next) not in self._early

    def get_nowait(self) -> Any:
        """Return the next one, which is there."""
        self._next += 1
        return self._early.pop(str(self._next - 1))

    async def get(self) -> Any:
        """Return the next one when it is there."""
        while self.empty():
            self._keep(await self._buffer.get())
        return self.get_nowait()

    def _keep(self, group: Any) -> None:
        self._early[group.uid] = group


def one_by_one(prompts: Any, room: Any) -> None:
    """Have SkyRL take a prompt when there is room for it, not before: a later one might get the room of an earlier."""
    take, wait = prompts.get_next_non_consumed_data, room.acquire_submission_slot

    async def take_with_room() -> Any:
        await wait()
        prompt = await take()
        if prompt is None:
            await room.on_rollout_rejected()
        return prompt

    async def has_room() -> None: ...

    prompts.get_next_non_consumed_data, room.acquire_submission_slot = take_with_room, has_room


def register_losses(registry: Any) -> None:
    """Register SkyRL's losses as NAME_rollout with ratios against the sampler, as its asynchronous trainer wants."""
    names = registry.list_available()
    for name in ("regular", "gspo", "sapo"):
        if f"{name}_rollout" not in names:
            registry.register(f"{name}_rollout", against_sampler(registry.get(name), name))


def against_sampler(loss: Any, name: str) -> Any:
    """Return a loss of SkyRL's with the sampler's probabilities as the old ones."""

    def compute(
        log_probs: Any, _: Any, advantages: Any, config: Any, loss_mask: Any = None, rollout_logprobs: Any = None
    ) -> Any:
        settings = copy.copy(config)
        settings.policy_loss_type = name  # which it looks at
        return loss(log_probs, rollout_logprobs, advantages, settings, loss_mask, rollout_logprobs)

    return compute
