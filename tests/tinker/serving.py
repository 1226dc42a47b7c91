"""SkyRL's tx as a server on this machine, with the model of an embedded task, and a proxy that misbehaves before it."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from runner.tasks.embedded import model_folder
from runner.tasks.tokenizers import character_tokenizer_files

KEY = "tml-never-stored-anywhere"
# So many rows at once, padded: nothing is then compiled twice, and no row depends on which others it goes with.
# Adapters of trials that were killed stay until their sessions end: there is room for those of all tests.
ROWS = {"max_lora_adapters": 24, "max_lora_rank": 8, "train_micro_batch_size": 16, "sample_max_num_sequences": 16}
_SECONDS_TO_START = 180.0


def lay_model(folder: Path, task: str = "sum-easy") -> str:
    """Write the model of an embedded task as the server loads it: in float32, with its tokenizer."""
    from safetensors.torch import load_file, save_file

    source = model_folder(task)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"dtype": "float32", "rope_theta": config["rope_parameters"]["rope_theta"]}
    files = {"config.json": json.dumps(config), **character_tokenizer_files()}
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    weights = {name: tensor.float() for name, tensor in load_file(source / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


class Server:
    """The server's process; what it has saved outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, lay_model(folder / "tiny")
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until its engine has loaded the model."""
        log = self.folder / "server.log"
        before = log.read_text(encoding="utf-8").count("Starting background engine") if log.exists() else 0
        settings = {
            "base-model": self.model,
            "checkpoints-base": str(self.folder / "checkpoints"),
            "database-url": f"sqlite:///{self.folder / 'server.sqlite'}",
            "host": "127.0.0.1",
            "port": str(self.port),
            "backend-config": json.dumps(ROWS),
            "session-timeout-sec": "25",  # an SDK that lives says so every 10 s
            "session-cleanup-interval-sec": "5",
        }
        # Its engine is started by `uv run`, which outside of a project runs what VIRTUAL_ENV has.
        environment = {
            **os.environ,
            "VIRTUAL_ENV": sys.prefix,
            "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
            "UV_OFFLINE": "1",
            "JAX_COMPILATION_CACHE_DIR": f"{sys.prefix}/compiled",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tx.tinker.api", *words],
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + _SECONDS_TO_START
        while log.read_text(encoding="utf-8").count("Starting background engine") == before:
            assert self._process.poll() is None, log.read_text(encoding="utf-8")[-2000:]
            assert time.monotonic() < end, log.read_text(encoding="utf-8")[-2000:]
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill it with its engine, as a lost machine does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def tokens(self, adapter: str) -> dict[str, int]:
        """Count what an adapter was asked for, by the server's own records of each call."""
        counted = {"prefill": 0, "sample": 0, "train": 0}
        with closing(sqlite3.connect(self.folder / "server.sqlite")) as database:
            calls = database.execute(
                "select request_type, request_data, result_data from futures where model_id = ?", [adapter]
            ).fetchall()
        for kind, *texts in calls:
            asked, answered = map(json.loads, texts)
            if kind == "SAMPLE":
                counted["prefill"] += asked["num_samples"] * _length(asked["prompt"])
                counted["sample"] += sum(len(row["tokens"]) for row in answered["sequences"])
            elif kind in ("FORWARD", "FORWARD_BACKWARD"):
                which = "prefill" if kind == "FORWARD" else "train"
                counted[which] += sum(_length(datum["model_input"]) for datum in asked["data"])
        return counted

    def checkpoint(self, path: str) -> dict[str, Any]:
        """Return every array that was saved at a path of the service, by its name."""
        from flax.training.checkpoints import restore_checkpoint
        from flax.traverse_util import flatten_dict

        adapter, _, name = path.removeprefix("tinker://").split("/")
        folder = self.folder / "checkpoints" / adapter / f"{name}.tar.gz"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it takes the machine's devices for those it was saved from
            saved = restore_checkpoint(folder, None, prefix="checkpoint_")
        return {name: value for name, value in flatten_dict(saved, sep="/").items() if hasattr(value, "shape")}


def _length(model_input: dict[str, Any]) -> int:
    return sum(len(chunk["tokens"]) for chunk in model_input["chunks"])


@dataclass(frozen=True)
class Reply:
    """What the proxy answers in the server's place."""

    status: int
    seconds: float = 0.0  # before it does


class Proxy:
    """Passes everything on, but for what `answers` says of a path."""

    def __init__(self, url: str) -> None:
        self.answers: Callable[[str], Reply | None] = lambda _: None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._pass(None)

            def do_POST(self) -> None:
                self._pass(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def _pass(self, body: bytes | None) -> None:
                reply = proxy.answers(self.path)
                if reply is not None:
                    time.sleep(reply.seconds)
                    return self._answer(reply.status, b'{"detail": "by the proxy"}')
                headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
                request = urllib.request.Request(url + self.path, body, headers)
                try:
                    with urllib.request.urlopen(request) as answer:
                        self._answer(answer.status, answer.read())
                except urllib.error.HTTPError as error:
                    with error:
                        self._answer(error.code, error.read())
                return None

            def _answer(self, status: int, body: bytes) -> None:
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
