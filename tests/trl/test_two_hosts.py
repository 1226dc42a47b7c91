"""One trial of TRL on two hosts, network namespaces with a link between them, is that of two local processes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch

from runner.trainers.backend import DrivenBackend
from runner.trainers.hosts import LocalHost, LocalProcess
from runner.trainers.trl.driver import DRIVER
from runner.training.trial import OpenTrial
from tests.namespaces import NEEDS_ROOT, joined
from tests.trl.test_trainer import computed, opened, trial, weights

pytestmark = NEEDS_ROOT
HOSTS = {"trl-one": "10.77.6.1", "trl-two": "10.77.6.2"}


class Namespace(LocalHost):
    """A host of its own on this machine."""

    def __init__(self, name: str) -> None:
        super().__init__(HOSTS[name])
        self._name = name

    def start(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> LocalProcess:
        within = ("ip", "netns", "exec", self._name, *argv)
        return super().start(within, {**environment, "GLOO_SOCKET_IFNAME": self._name}, folder, log)


@pytest.fixture
def hosts() -> Iterator[list[Namespace]]:
    with joined(HOSTS):
        yield [Namespace(host) for host in HOSTS]


def test_two_hosts_compute_what_two_processes_of_one_do(hosts: list[Namespace], tmp_path: Path) -> None:
    with opened(trial(processes=2), tmp_path / "one") as here:
        whole = list(here.train(6))
        here.save()
    config = trial(processes=2)
    config = config.model_copy(update={"machine": config.machine.model_copy(update={"nodes": 2})})
    points = []
    for to_step in (3, 6):  # the second goes on in new processes
        backend = DrivenBackend(DRIVER, hosts)
        folder = tmp_path / "two"
        if to_step == 3:
            backend.start(config, folder)
        there = OpenTrial(backend, folder, backend.restore(config, folder) if to_step > 3 else None)
        points += there.train(to_step)
        there.save()
        there.close()
    assert computed(points) == computed(whole)
    ours, theirs = weights(tmp_path / "two", 6), weights(tmp_path / "one", 6)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
