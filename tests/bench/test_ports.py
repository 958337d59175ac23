"""Ports for servers: free, and nobody else's for a while."""

import socket
import subprocess
import sys

from bench.ports import free_port

DRAWS = 120
FOLLOWING = 7
DRAWING = f"""
from bench.ports import free_port
print(*(free_port({FOLLOWING}) for _ in range({DRAWS})), flush=True)
input()
"""


def test_two_processes_draw_different_ports() -> None:
    """Of hundreds of blocks in three processes no two have a port in common, as long as the processes live."""
    drawing = [
        subprocess.Popen([sys.executable, "-c", DRAWING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    first = [free_port(FOLLOWING) for _ in range(DRAWS)]
    for each in drawing:
        assert each.stdout is not None
        first += map(int, each.stdout.readline().split())
    for each in drawing:
        each.communicate("\n")
    ports = [port for start in first for port in range(start, start + FOLLOWING + 1)]
    assert len(ports) == len(set(ports)) == 3 * DRAWS * (FOLLOWING + 1)


def test_a_port_that_is_listened_on_is_not_drawn() -> None:
    """Whoever listens: it is no port of ours."""
    with socket.create_server(("127.0.0.1", free_port())) as server:
        taken = server.getsockname()[1]
        assert taken not in {free_port() for _ in range(300)}
