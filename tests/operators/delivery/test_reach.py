"""An unreachable broker is found at once, and named by the address."""

import socket
import time
from contextlib import closing

import pytest

from bench.ports import free_port
from operators.delivery.broker import address, reach
from schemas.errors import FatalDelivery


def test_a_server_that_accepts_is_enough() -> None:
    """One of several that is there will tell of the others."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        reach(f"127.0.0.1:{free_port()}, 127.0.0.1:{server.getsockname()[1]}")


def test_servers_that_refuse_are_named_at_once() -> None:
    """Each with its reason, and what to do."""
    one, other = free_port(), free_port()
    began = time.monotonic()
    with pytest.raises(FatalDelivery) as caught:
        reach(f"127.0.0.1:{one},127.0.0.1:{other}")
    assert time.monotonic() - began < 5
    said = str(caught.value)
    assert f"127.0.0.1:{one} (connection refused), 127.0.0.1:{other} (connection refused)" in said
    assert "kafka.bootstrap_servers" in said
    assert "\n" not in said


def test_a_host_that_does_not_exist_is_said() -> None:
    """A misspelt name is no time-out."""
    with pytest.raises(FatalDelivery, match=r"broker\.invalid:9092 \(unknown host\)"):
        reach("broker.invalid:9092")


@pytest.mark.parametrize(
    ("server", "place"),
    [
        ("kafka", ("kafka", 9092)),
        ("kafka:9094", ("kafka", 9094)),
        (" kafka:1 ", ("kafka", 1)),
        ("[::1]:9094", ("::1", 9094)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_a_server_is_a_host_and_a_port(server: str, place: tuple[str, int]) -> None:
    """As Kafka's clients read it."""
    assert address(server) == place


def test_a_port_that_is_no_number_is_said() -> None:
    """It is an error of the address, and of no other."""
    with pytest.raises(FatalDelivery, match="b is no port"):
        reach("a:b")
