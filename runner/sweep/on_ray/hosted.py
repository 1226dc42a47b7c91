"""A session for a driver outside of the cluster, which speaks with it as a Ray client (ray://host:port).

Tune cannot run on a client's side, so the session lives in an actor of the cluster and its events are fetched.
"""

import os
import queue
import shutil
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from runner.sweep.on_ray import cluster
from runner.sweep.on_ray.messages import Message
from runner.sweep.on_ray.session import Session, Settings, start_thread

CLIENT = "ray://"
_SECONDS_OF_A_CALL = 1.0


class Host:
    """The actor: a session, whose events wait here until the client fetches them."""

    def __init__(self, settings: Settings) -> None:
        os.environ.update(cluster.ENVIRONMENT)
        self._temporary = settings.temporary
        self._events: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._session = Session(settings, self._events.put)
        start_thread("nodes", lambda: cluster.watch_nodes(self._nodes_are, self._is_lost))
        start_thread("letter box", self._guard)
        start_thread("tune", self._session.run)

    def do(self, command: Message) -> None:
        """Pass a command of the driver on."""
        self._session.do(command)

    def sweep(self, workers: list[list[str]], seconds: float) -> None:
        """End what lost workers have left behind."""
        self._session.sweep(workers, seconds)

    def events(self, seconds: float) -> list[Message]:
        """Return what has happened, waiting for something."""
        try:
            events = [self._events.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def clear(self) -> None:
        """Remove what Tune has written."""
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _nodes_are(self, nodes: list[cluster.Node]) -> None:
        self._events.put({"event": "nodes", "nodes": [asdict(node) for node in nodes]})

    def _is_lost(self, reason: str) -> None:
        self._events.put({"event": "leaving", "reason": reason})

    def _guard(self) -> None:
        self._session.wait_for_the_end_of_the_letter_box()
        self._is_lost("the letter box of the workers has died")


class HostedSession:
    """The client's side; it is used like a session."""

    def __init__(self, settings: Settings, post: Callable[[Message], None]) -> None:
        """Have the session opened in the cluster."""
        import ray  # noqa: PLC0415

        self._post = post
        # Several calls at once: `events` waits while `do` must get in, and those of one thread stay in order.
        on_head = {"node:__internal_head__": 0.001}  # with which everything else would be lost too
        self._host: Any = ray.remote(Host).options(num_cpus=0, resources=on_head, max_concurrency=4).remote(settings)
        for message in ray.get(self._host.events.remote(0.0)):  # an error of the start is raised here
            post(message)

    def do(self, command: Message) -> None:
        """Pass a command of the driver on."""
        import ray  # noqa: PLC0415

        ray.get(self._host.do.remote(command))

    def sweep(self, workers: list[list[str]], seconds: float) -> None:
        """End what lost workers have left behind."""
        import ray  # noqa: PLC0415

        ray.get(self._host.sweep.remote(workers, seconds))

    def end(self, workers: list[list[str]], seconds: float) -> None:
        """Sweep for the last time, remove what Tune has written, and take leave: else the cluster waits a while."""
        import ray  # noqa: PLC0415

        self.sweep(workers, seconds)
        ray.get(self._host.clear.remote())
        ray.shutdown()

    def run(self) -> None:
        """Fetch events until the session is over; Ray's error when the cluster is lost."""
        import ray  # noqa: PLC0415

        while True:
            for message in ray.get(self._host.events.remote(_SECONDS_OF_A_CALL)):
                self._post(message)
                if message["event"] == "leaving":
                    return
