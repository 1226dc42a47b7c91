"""How often a Ray that was lost is started again, how long that waits, and when it is a mistake of the user's."""

import pytest

from budgets.errors import ClusterLostError, InputError
from runner.sweep.tune.link import MOST_JOINS, MOST_RESTARTS, Restarts


def test_restarts_wait_longer_and_longer_until_a_segment_has_ended() -> None:
    restarts = Restarts(None)
    waits = []
    for loss in range(MOST_RESTARTS):
        restarts.lost("it broke", now=100.0)
        waits.append(next(wait for wait in (0, 1, 2, 4, 8, 16) if restarts.due(100.0 + wait)))
        if loss == 0:
            restarts.worked()
    assert waits == [0, 0, 1, 2, 4]
    restarts.lost("it broke", now=100.0)
    assert restarts.pending
    restarts.due(200.0)
    restarts.lost("it broke", now=100.0)
    assert not restarts.pending
    with pytest.raises(ClusterLostError, match=r"6 times .* it broke\. What was trained is saved"):
        restarts.check()


BUSY = "ConnectionAbortedError: Initialization failure from server: Starting Ray client server failed."


@pytest.mark.parametrize(
    ("address", "reason", "joins"),
    [
        ("10.0.0.1:6379", "refused", 1),
        ("ray://head:10001", "connection refused", 1),
        ("head:6379", BUSY, 1),
        ("ray://head:10001", BUSY, MOST_JOINS),  # it is there, and too busy for a client
    ],
)
def test_a_cluster_that_was_never_there_is_a_mistake_of_the_user(address: str, reason: str, joins: int) -> None:
    restarts = Restarts(address)
    for _ in range(joins - 1):
        restarts.lost(reason, 100.0)
        restarts.check()
        assert restarts.due(1000.0)
    restarts.lost(reason, 100.0)
    with pytest.raises(InputError, match=f"no cluster can be joined at '{address}': {reason}"):
        restarts.check()


def test_a_client_that_has_lost_its_cluster_waits_until_that_has_let_go_of_it() -> None:
    restarts = Restarts("ray://10.0.0.1:10001")
    restarts.ready()
    restarts.lost("refused", now=0.0)
    assert not restarts.due(10.0)  # the cluster still keeps what the dead client has started
    assert restarts.due(12.0)
