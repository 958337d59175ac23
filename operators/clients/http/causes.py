"""Why a request got no answer, in words for operators: what a library's error means, without what it quotes."""

import errno
import os
import socket
import ssl
from typing import Final

import httpx

from operators.clients.http.answer import NotHttp
from operators.clients.http.connection import SilentEnd

SILENT_END: Final = "the connection broke without an answer"

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"})


def cause_of(error: Exception) -> str:
    """Why a request got no answer, of an httpx.TransportError or what the system said."""
    said = error.__cause__ or error
    if isinstance(said, socket.gaierror):
        return "name not found"
    if isinstance(said, ssl.SSLCertVerificationError):
        return f"certificate not trusted: {said.verify_message}"
    if isinstance(said, SilentEnd):
        return SILENT_END
    if isinstance(said, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
        return "the connection broke"
    if isinstance(said, OSError):
        return _of_system(said)
    return "no connection"


def not_http(error: NotHttp) -> str:
    """Why what came isn't an answer."""
    return "not an HTTP answer: http spoken to a TLS port" if error.alert else "not an HTTP answer"


def _of_system(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = error.reason or type(error).__name__
        meant = ": https spoken to a plain port" if reason in _NOT_TLS else ""
        return f"no TLS connection ({reason}){meant}"
    if isinstance(error, ConnectionError) and error.errno is None:
        # Only a handshake ends so: a connection that is made or refused has a number.
        return "the connection broke in the TLS handshake: https spoken to a plain port?"
    if error.errno == errno.ECONNREFUSED:
        return "connection refused"
    return os.strerror(error.errno).lower() if error.errno else "no connection"
