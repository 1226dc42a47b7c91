"""What the driver, its child and the workers say to each other: dictionaries, pickled one after the other."""

import pickle
from typing import IO, Any

Message = dict[str, Any]


def write(stream: IO[bytes], message: object) -> None:
    """Write a message, and see that it leaves."""
    stream.write(pickle.dumps(message))  # whole or not at all
    stream.flush()
