"""A folder at a URL of fsspec, whose errors are told in one line that says what to do."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from budgets.errors import CheckpointError, InputError

# Where folders are made of themselves; to make one there would be to make a bucket.
_BUCKETS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss"})
_PACKAGES = {"s3": "s3fs (pip install 'rlplan[s3]')", "s3a": "s3fs (pip install 'rlplan[s3]')", "gs": "gcsfs"}
_KEYS = re.compile(r"(?:key|password|secret|signature|token)[^=&]*=|\bsig=", re.IGNORECASE)
_PROBE = "rlplan-was-here"
_AT_ONCE = 8  # files on the way, of storage that takes several


class Place:
    """A folder that may be on another machine; its files are named by their path below it."""

    def __init__(self, url: str) -> None:
        """Refuse a URL that no library of this environment can open; nothing is asked of the storage yet."""
        import fsspec  # noqa: PLC0415 (only sweeps with a URL need it)

        self.url = url.rstrip("/")
        parts = urlsplit(url)
        self._scheme = parts.scheme
        if self._scheme == "":
            raise InputError(f"--storage {url} is no URL: give one such as s3://bucket/path or file:///shared/path")
        if "@" in parts.netloc or _KEYS.search(parts.query):
            raise InputError(
                f"--storage {self._scheme}://… holds a key or names who you are, and would be stored and shown with "
                "the sweep: leave that to the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        try:
            self._fs, root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:
            package = _PACKAGES.get(self._scheme, f"the package for {self._scheme}://, of which fsspec says: {error}")
            raise InputError(f"--storage {self.url} needs {package} in this environment") from error
        except ValueError as error:
            raise InputError(f"--storage {self.url} is of no kind that fsspec knows: {error}") from error
        self._root = root.rstrip("/")
        self._options = {"batch_size": _AT_ONCE} if self._fs.async_impl else {}

    def require_usable(self) -> None:
        """Refuse a place that cannot be written to and read from, before anything is stored."""
        if self._scheme == "memory":
            raise InputError(f"--storage {self.url} ends with the process that writes to it: give another")
        try:
            self.write(_PROBE, b"whole")
            self.read(_PROBE)
            self.remove([_PROBE])
        except CheckpointError as error:
            raise InputError(str(error)) from error

    def names(self) -> dict[str, int]:
        """Return the files in it and in all folders of it, with their bytes; nothing where it is not there."""
        with self._translate_errors("be listed"), suppress(FileNotFoundError):
            files = self._fs.find(self._root, detail=True)
            return {path[len(self._root) + 1 :]: int(file["size"] or 0) for path, file in files.items()}
        return {}

    def read(self, name: str) -> bytes:
        """Return what a small file holds."""
        with self._translate_errors("be read"):
            return bytes(self._fs.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, data: bytes) -> None:
        """Write a small file."""
        with self._translate_errors("be written"):
            self._make_folders([name])
            self._fs.pipe_file(f"{self._root}/{name}", data)

    def put(self, folder: Path, names: Iterable[str], target: str = "") -> None:
        """Copy files of a folder of this machine to the place, or to a folder in it."""
        copies = {str(folder / name): f"{target}{name}" for name in names}
        with self._translate_errors("be written"):
            self._make_folders(copies.values())
            self._fs.put(list(copies), [f"{self._root}/{name}" for name in copies.values()], **self._options)

    def get(self, folder: Path, names: Iterable[str], source: str = "") -> None:
        """Copy files of the place, or of a folder in it, to a folder of this machine."""
        copies = {f"{self._root}/{source}{name}": folder / name for name in names}
        with self._translate_errors("be read"):
            for path in copies.values():
                path.parent.mkdir(parents=True, exist_ok=True)
            self._fs.get(list(copies), list(map(str, copies.values())), **self._options)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, those in folders last: the marks of saves first. One that is gone already is passed over."""
        with self._translate_errors("be changed"):
            for name in sorted(names, key=lambda name: (name.count("/"), name)):
                with suppress(FileNotFoundError):
                    self._fs.rm_file(f"{self._root}/{name}")

    def _make_folders(self, names: Iterable[str]) -> None:
        if self._scheme not in _BUCKETS:
            for folder in {f"{self._root}/{name}".rpartition("/")[0] for name in names}:
                self._fs.makedirs(folder, exist_ok=True)

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Raise CheckpointError, in one line that says what to do, for whatever a library behind fsspec raises."""
        try:
            yield
        except Exception as error:
            text, kind = " ".join(str(error).split()) or type(error).__name__, type(error).__name__
            if "Credentials" in kind or "credentials" in text or "GoogleAuth" in kind:
                text = f"it was asked without credentials ({text}); give them by the environment, on every machine "
                text += "that trains"
            elif isinstance(error, PermissionError):
                text = f"it refuses these credentials ({text}); let them read, write, list and delete there"
            elif isinstance(error, FileNotFoundError) and self._scheme in _BUCKETS:
                text = f"there is no such bucket ({text}); make it, or name another"
            raise CheckpointError(f"the storage {self.url} cannot {what}: {text}") from error
