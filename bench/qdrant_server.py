"""A real Qdrant server, if the machine has one, for benchmarks and for tests that can run on one."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx

from bench.ports import free_port

VARIABLE: Final = "QDRANT_BINARY"
"""The environment's variable with the path of a `qdrant`."""


def named() -> str | None:
    """The path of the server's binary, None without one."""
    return os.environ.get(VARIABLE)


@contextmanager
def started(binary: str, path: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server of its own over `path`, on loopback; yields the base URL. `settings` are variables of Qdrant's."""
    port = free_port(1)
    with spawned(binary, path, port, settings):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def spawned(
    binary: str, path: Path, port: int, settings: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The same at a port, and the next one for gRPC; yields the process."""
    path.mkdir(parents=True, exist_ok=True)
    variables = {
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": str(port + 1),
        "QDRANT__STORAGE__STORAGE_PATH": str(path / "storage"),
        "QDRANT__STORAGE__SNAPSHOTS_PATH": str(path / "snapshots"),
        "QDRANT__TELEMETRY_DISABLED": "true",
        "QDRANT__LOG_LEVEL": "WARN",
        **(settings or {}),
    }
    url = f"http://127.0.0.1:{port}"
    with (path / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [binary], cwd=path, env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait(process, url, path / "log.txt")
            yield process
        finally:
            process.terminate()
            process.wait(30)


def empty(client: httpx.Client, headers: Mapping[str, str] | None = None) -> None:
    """Drop every collection, and with it its aliases; `client` has the server's base URL."""
    for each in client.get("/collections", headers=headers).json()["result"]["collections"]:
        client.delete(f"/collections/{quote(each['name'], safe='')}", headers=headers).raise_for_status()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{process.args!r} does not start:\n{log.read_text()[-2000:]}")
