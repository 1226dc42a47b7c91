# mypy: disable-error-code="misc, untyped-decorator"
"""What Ray Tune knows of a trial: a trainable whose actor is one of our workers."""

import asyncio
import queue
from typing import Any, ClassVar

import ray
from ray.tune import Trainable

from runner.sweep.tune.messages import Message, RayStart
from runner.sweep.tune.worker_process import WorkerProcess

MESSAGES, YIELDED, LEAVING = "messages", "yielded", "leaving"

_process: list[WorkerProcess] = []  # one, from the first segment that this process is given


class TrialOnWorker(Trainable):
    """Hands over what its worker says. An asynchronous method makes Ray answer other calls meanwhile.

    The worker begins with its first segment and not with `setup`: Tune may start an actor for a trial and then give the
    trial to one that has just become free.
    """

    resources: ClassVar[dict[int, Any]] = {}  # of trials that are about to begin; of Tune's process alone

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Return what the trial occupies: its worker the first bundle, processes that it starts the others."""
        return cls.resources[config["trial"]]

    def setup(self, config: dict[str, Any]) -> None:
        """Be ready to hear and to speak."""
        self._news: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._yielded = self._leaving = False
        self._call: str | None = None
        self._answer: asyncio.Future[dict[str, Any]]

    @ray.method(max_task_retries=-1)
    async def train(self) -> dict[str, Any]:
        """Wait for news of the worker, and return them as Tune's next result.

        Ray makes a call again whose answer was lost on the way, with the same name: it gets the same answer.
        """
        call = ray.get_runtime_context().get_task_id()
        if call != self._call:
            self._call, self._answer = call, asyncio.ensure_future(self._next_result())
        return await asyncio.shield(self._answer)

    async def _next_result(self) -> dict[str, Any]:
        self._loop = self._loop or asyncio.get_running_loop()
        while self._news.empty() and not self._yielded:
            self._arrived.clear()
            await self._arrived.wait()
        return dict(super().train())

    def step(self) -> dict[str, Any]:
        """Return what has happened."""
        messages = []
        while not self._news.empty():
            messages.append(self._news.get())
        return {MESSAGES: messages, YIELDED: self._yielded, LEAVING: self._leaving}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Serve another trial in the same process, where everything is imported already."""
        self._yielded = False
        return True

    @ray.method(max_task_retries=-1)
    def tell(self, command: Message, start: RayStart | None = None) -> None:
        """Obey the driver."""
        if not _process and start is not None:
            self._loop = asyncio.get_running_loop()
            _process.append(WorkerProcess(start, self._post))
        match command["do"]:
            case "yield":
                self._yielded = True
                self._arrived.set()
            case "release":
                _process[0].end()
                self._yielded = self._leaving = True
                self._arrived.set()
            case _:
                _process[0].tell(command)

    def hear(self, driver_silent: float) -> None:
        """Hear that the session lives, and for how long it has not heard of the driver."""
        if _process:
            _process[0].hear(driver_silent)

    def cleanup(self) -> None:
        """Leave; the process ends after this."""
        if _process:
            _process[0].end()

    def _post(self, message: Message) -> None:
        """Pass on what the worker says, in a thread of its own."""
        self._news.put(message)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._arrived.set)
