"""An unreachable broker is found at once, and named by the address."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.kafka.broker import Broker
from bench.ports import free_port
from operators.delivery import listener
from operators.delivery.broker import address, administration, reach
from operators.delivery.embedded_broker import EmbeddedBroker
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings, Topics


def at(servers: str, **settings: Any) -> KafkaSettings:
    """Settings of these servers."""
    return KafkaSettings(bootstrap_servers=servers, **settings)


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """The address of a server that answers each request with these bytes and ends the connection; None: silence."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connected, _ = server.accept()
            with connected:
                connected.recv(1024)
                if answer is None:
                    connected.recv(1024)
                else:
                    connected.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_broker_that_answers_is_enough() -> None:
    """One of several that is there will tell of the others."""
    with EmbeddedBroker() as broker:
        settings = broker.client_settings(Topics())
        reach(settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:1, {settings.bootstrap_servers}"}))


def test_the_broker_of_a_demo_is_known_at_once() -> None:
    """kafka-python, which commands ask, would wait half a minute for it."""
    with EmbeddedBroker() as broker:
        settings = broker.client_settings(Topics())
        reach(settings)
        with pytest.raises(FatalDelivery, match="as the broker of rankstream demo"), administration(settings):
            pass


def test_servers_that_refuse_are_named_at_once() -> None:
    """Each with its reason, and what to do."""
    one, other = free_port(), free_port()
    began = time.monotonic()
    with pytest.raises(FatalDelivery) as caught:
        reach(at(f"127.0.0.1:{one},127.0.0.1:{other}"))
    assert time.monotonic() - began < 5
    said = str(caught.value)
    assert f"127.0.0.1:{one} (connection refused), 127.0.0.1:{other} (connection refused)" in said
    assert said.endswith(": start it, or correct kafka.bootstrap_servers")
    assert "\n" not in said


def test_a_host_that_does_not_exist_is_said() -> None:
    """A misspelt name is no time-out."""
    with pytest.raises(FatalDelivery, match=r"broker\.invalid:9092 \(unknown host\)"):
        reach(at("broker.invalid:9092"))


LISTENERS = [
    (None, "accepts connections and never answers", "look at the broker's log, or correct kafka.bootstrap_servers"),
    (b"", "ends the connection, as a listener of TLS does", "set kafka.security_protocol to SSL or SASL_SSL, or"),
    (b"\x15\x03\x03\x00\x02\x02\x50", "wants TLS", "set kafka.security_protocol to SSL or SASL_SSL"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is an HTTP server", "correct kafka.bootstrap_servers"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak Kafka's protocol", "correct kafka.bootstrap_servers"),
    (b"\x00\x00\x00\x04\x00\x00\x00\x12", None, None),
]


@pytest.mark.parametrize(("answer", "why", "cure"), LISTENERS)
def test_a_listener_that_is_no_broker_for_us_is_told_by_its_answer(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | None, why: str | None, cure: str | None
) -> None:
    """In a line with what to do, and not by a client's time-out. A broker that tells no versions is taken."""
    monkeypatch.setattr(listener, "PATIENCE", 0.3)
    with listening(answer) as server:
        if why is None:
            reach(at(server))
            return
        with pytest.raises(FatalDelivery) as caught:
            reach(at(server))
    assert str(caught.value).startswith(f"no Kafka broker answers at {server} ({why}): {cure}")


PLAIN = {"mechanism": "PLAIN", "username": "u", "password": "p"}


def test_sasl_at_a_listener_without_it_is_said(broker: Broker) -> None:
    """A real broker's."""
    with pytest.raises(FatalDelivery, match=r"\(takes no SASL\): set kafka\.security_protocol to PLAINTEXT"):
        reach(at(broker.bootstrap, security_protocol="SASL_PLAINTEXT", sasl=PLAIN))
    reach(at(broker.bootstrap))


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
        reach(at("a:b"))
