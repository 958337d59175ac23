"""Ports on loopback for servers that a test starts in another process."""

import random
import socket
from contextlib import ExitStack, suppress


def free_port(following: int = 0) -> int:
    """A TCP port of 127.0.0.1 that is free, as are so many after it."""
    while True:
        # Below those that a kernel gives to connections: until it is listened on nobody but another call gets it.
        first = random.randrange(20_000, 32_000)
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + following + 1):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
