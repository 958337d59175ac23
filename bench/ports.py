"""Ports on loopback for servers that a test starts in another process.

A server listens seconds after its port was drawn. So that no other process draws it meanwhile, each holds a lock on a
byte of one file for every port that it drew lately: the kernel releases the locks of a process that ends, however.
"""

import fcntl
import os
import random
import socket
import tempfile
from collections import deque
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Final

# Below those that a kernel gives to connections: until it is listened on nobody but another call gets it.
_PORTS: Final = range(20_000, 32_000)

_HELD: Final = 256
"""Draws whose ports a process holds."""

_drawn: deque[range] = deque()


def free_port(following: int = 0) -> int:
    """A TCP port of 127.0.0.1 that is free, as are so many after it."""
    while True:
        first = random.randrange(_PORTS.start, _PORTS.stop - following)
        ports = range(first, first + following + 1)
        if any(ports.start < held.stop and held.start < ports.stop for held in _drawn):
            continue
        with ExitStack() as stack, suppress(OSError):
            for port in ports:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            _hold(ports)
            return first


def _hold(ports: range) -> None:
    """Hold the ports until further ones are drawn, or the process ends; raises OSError if another process does."""
    fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
    _drawn.append(ports)
    if len(_drawn) > _HELD:
        oldest = _drawn.popleft()
        fcntl.lockf(_file(), fcntl.LOCK_UN, len(oldest), oldest.start)


@cache
def _file() -> int:
    path = Path(tempfile.gettempdir()) / f"rankstream-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
