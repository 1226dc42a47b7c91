"""The process that speaks with Ray for the driver: a program of its own, which lives no longer than the driver.

It reads from its standard input how to start Ray, and then commands, and writes events to a file descriptor of its own;
what Ray prints goes to the log that its standard output is. When it ends, whatever it has started ends with it.
"""

import os
import pickle
import queue
import shutil
import sys
import threading
import traceback
from contextlib import suppress
from typing import NoReturn

from runner.processes import end_session, sweep_orphans
from runner.sweep.tune import cluster
from runner.sweep.tune.messages import Message, RayStart, write
from runner.sweep.tune.session import Session, start_thread
from runner.trainers.in_own_ray import within

_LONGEST_FAREWELL = 2.0


class _Child:
    """Everything between the driver's pipes and the session."""

    def __init__(self, events: int, start: RayStart) -> None:
        os.set_inheritable(events, False)
        self._events, self._start = os.fdopen(events, "wb"), start
        self._lock = threading.Lock()
        self._commands: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def serve(self) -> None:
        start = self._start
        start_thread("commands", self._listen)
        try:
            cluster.connect(start.address, start.cpus, start.gpus, within(start.temporary), start.runtime_env)
            session = Session(start, self.post)
            address = start.address
            if address is None:
                self._post_nodes(cluster.nodes())
                start_thread("servers", lambda: cluster.watch_servers(self.leave))
            else:
                start_thread("nodes", lambda: cluster.watch_nodes(address, self._post_nodes, self.leave))
        except Exception as error:  # whatever keeps Ray from starting, the driver has to say it
            traceback.print_exc()
            self.leave(f"Ray cannot be started or joined: {type(error).__name__}: {error}")
        start_thread("obeying", lambda: self._obey(session))
        try:
            session.run()
        except Exception as error:  # whatever Ray raises, the driver has to say it
            traceback.print_exc()
            self.leave(f"Ray has failed: {type(error).__name__}: {error}")
        self.leave("the session with Ray has ended")

    def post(self, message: Message) -> None:
        """Send the driver a message; several threads do."""
        with self._lock, suppress(BrokenPipeError):  # the driver's end is noticed elsewhere
            write(self._events, message)

    def leave(self, reason: str) -> NoReturn:
        """End everything that this process has started, and then itself."""
        # Not for ever: a driver that is frozen reads nothing, and another thread may wait for that in a write.
        if self._lock.acquire(timeout=_LONGEST_FAREWELL):
            with suppress(BrokenPipeError):
                write(self._events, {"event": "leaving", "reason": reason})
        end_session(os.getsid(0))
        sweep_orphans(self._start.tag, driver=self._start.driver)
        shutil.rmtree(self._start.temporary, ignore_errors=True)
        os._exit(1)

    def _post_nodes(self, nodes: list[cluster.Node]) -> None:
        self.post({"event": "nodes", "nodes": nodes})

    def _listen(self) -> None:
        with suppress(EOFError, pickle.UnpicklingError):  # of a driver that died in the middle of a word
            while True:
                self._commands.put(pickle.load(sys.stdin.buffer))
        self.leave("the driver is gone")

    def _obey(self, session: Session) -> None:
        while True:
            command = self._commands.get()
            if command["do"] == "leave":
                session.sweep(command["workers"])
                cluster.take_leave(self._start.address)
                self.leave("it was told to")
            session.do(command)


if __name__ == "__main__":
    _Child(int(sys.argv[1]), pickle.load(sys.stdin.buffer)).serve()
