"""What cannot be stored to is refused in one line that says what to do."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from budgets.errors import InputError
from runner.storage.place import Place
from tests.bucket import forget_clients, s3_server


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_server() as url:
        yield url


def refusal(url: str) -> str:
    with pytest.raises(InputError) as refused:
        Place(url).require_usable()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/shared/sweeps", "is no URL: give one such as s3://bucket/path"),
        ("floppy://a", "Protocol not known: floppy"),
        ("memory://sweeps", "ends with the process that writes to it"),
        ("s3://me:secret@bucket/path", "leave that to the environment"),
        ("abfs://box/path?sv=2024&sig=secret", "leave that to the environment"),
        ("s3://bucket/path?aws_secret_access_key=secret", "leave that to the environment"),
        ("file:///proc/nowhere", "file:///proc/nowhere cannot be written"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(url: str, said: str) -> None:
    refused = refusal(url)
    assert said in refused
    assert "secret" not in refused


def test_a_bucket_that_is_not_there_is_said_to_be_missing(bucket: str) -> None:
    Place(f"{bucket}/path").require_usable()
    assert Place(f"{bucket}/path").names() == {}
    assert "there is no such bucket" in refusal("s3://nowhere/path")


def test_credentials_are_asked_for(bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_clients()  # which were given some
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "was asked without credentials" in refusal(f"{bucket}/path")
    forget_clients()


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = importlib.import_module("fsspec.registry")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(registry._registry, "s3", raising=False)
    assert "needs s3fs (pip install 'rlplan[s3]')" in refusal("s3://bucket/path")
