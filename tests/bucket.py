"""A real S3 server on this machine for as long as a test wants it, with one bucket."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

BUCKET = "sweeps"


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the bucket's URL; this process and those that it starts find the server by their environment."""
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it prints every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    given = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    forget_clients()
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield f"s3://{BUCKET}"
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        server.stop()


def forget_clients() -> None:
    """Have the next place ask the environment again for server and credentials."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
