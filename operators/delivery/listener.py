"""The listener behind a broker's address: found out by two small requests if it is Kafka, and speaks our protocol.

A client of Kafka tries again for as long as it may, and then reports a time-out, whatever listens there. So each
command and each start asks once before. Only what is not encrypted is asked; a handshake of TLS says itself what is
wrong.

- Kafka answers ApiVersions (KIP-35) on every listener, before a client has said who it is.
- A listener of SASL ends the connection at any other request, and one without SASL says that it is none.
"""

import socket
import struct
from typing import Final, NamedTuple

from schemas.settings import KafkaSettings

PATIENCE: Final = 10.0
"""Seconds for an answer."""

_API_VERSIONS, _METADATA, _HANDSHAKE, _CREATE = 18, 3, 17, 19
_METADATA_VERSION: Final = 4
"""Since Kafka 0.11; its request can name no topic, and have none made."""

_ILLEGAL_SASL_STATE: Final = 34
_MOST: Final = 1024 * 1024
"""Bytes of an answer that is read."""

_HEAD: Final = struct.Struct(">hhih")
_RANGE: Final = struct.Struct(">hhh")


class Symptom(NamedTuple):
    """A fault of a listener, and its cure."""

    why: str
    cure: str


_ELSEWHERE: Final = "correct kafka.bootstrap_servers"
_SILENT: Final = Symptom("accepts connections and never answers", f"look at the broker's log, or {_ELSEWHERE}")
_OF_TLS: Final = Symptom("wants TLS", "set kafka.security_protocol to SSL or SASL_SSL")
_CLOSED: Final = Symptom(
    "ends the connection, as a listener of TLS does", f"set kafka.security_protocol to SSL or SASL_SSL, or {_ELSEWHERE}"
)
_OF_HTTP: Final = Symptom("is an HTTP server", _ELSEWHERE)
_FOREIGN: Final = Symptom("does not speak Kafka's protocol", _ELSEWHERE)
_OF_SASL: Final = Symptom("wants SASL", "set kafka.security_protocol to SASL_PLAINTEXT, and kafka.sasl")
_WITHOUT_SASL: Final = Symptom(
    "takes no SASL", "set kafka.security_protocol to PLAINTEXT and remove kafka.sasl, or name the port of SASL"
)
_OF_DEMO: Final = Symptom(
    "takes no administration, as the broker of rankstream demo", "use `rankstream query`, or a Kafka"
)


class _Closed(Exception):
    """The listener ended the connection."""


def examine(settings: KafkaSettings, connected: socket.socket, *, administered: bool = False) -> Symptom | None:
    """The symptom of the listener at the other end, by as much as these settings would say to it; None: it fits."""
    if settings.security_protocol.endswith("SSL"):
        return None
    connected.settimeout(PATIENCE)
    try:
        versions = _ask(connected, settings, _API_VERSIONS, 0, b"")
    except TimeoutError:
        return _SILENT
    except (_Closed, OSError):
        return _CLOSED
    if isinstance(versions, Symptom):
        return versions
    # kafka-python would wait for half a minute.
    if administered and _versions_of(_API_VERSIONS, versions)[1] < 3 and _versions_of(_CREATE, versions)[1] < 0:
        return _OF_DEMO
    try:
        if settings.security_protocol == "PLAINTEXT":
            least, most = _versions_of(_METADATA, versions)
            if least <= _METADATA_VERSION <= most:
                _ask(connected, settings, _METADATA, _METADATA_VERSION, struct.pack(">i?", 0, False))
            return None
        mechanism = (settings.sasl.mechanism or "").encode()
        answer = _ask(connected, settings, _HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism)
    except TimeoutError:
        return _SILENT
    except (_Closed, OSError):
        return _OF_SASL if settings.security_protocol == "PLAINTEXT" else None
    told = isinstance(answer, bytes) and answer[:2] == struct.pack(">h", _ILLEGAL_SASL_STATE)
    return _WITHOUT_SASL if told else None


def _ask(connected: socket.socket, settings: KafkaSettings, key: int, version: int, body: bytes) -> bytes | Symptom:
    """The answer to a request, without its head; a symptom where it is none of Kafka."""
    name = settings.group_id.encode()
    request = _HEAD.pack(key, version, key, len(name)) + name + body
    connected.sendall(struct.pack(">i", len(request)) + request)
    head = _read(connected, 8)
    if head[:2] == b"\x15\x03":
        return _OF_TLS
    if head.startswith(b"HTTP"):
        return _OF_HTTP
    size, correlation = struct.unpack(">ii", head)
    if correlation != key or not 4 <= size <= _MOST:
        return _FOREIGN
    return _read(connected, size - 4)


def _read(connected: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        chunk = connected.recv(size - len(read))
        if not chunk and read[:2] != b"\x15\x03":
            raise _Closed
        # An alert of TLS has seven bytes, and the end behind it.
        read += chunk or bytes(size)
    return read


def _versions_of(key: int, answer: bytes) -> tuple[int, int]:
    """The least and the greatest version of a request, in an answer to ApiVersions; none if it is not in there."""
    ranges = (_RANGE.unpack_from(answer, at) for at in range(6, len(answer) - _RANGE.size + 1, _RANGE.size))
    return next(((least, most) for each, least, most in ranges if each == key), (0, -1))
