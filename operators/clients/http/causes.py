"""Why a request got no answer, in words for operators: what a library's error means, without what it quotes."""

import errno
import os
import ssl
from typing import Final

import aiohttp

_TLS_ALERT: Final = r"\x15\x03"
"""How a TLS record begins by which a server refuses what isn't TLS, as an error quotes it."""

SILENT_END: Final = "the connection broke without an answer"

_NOTHING_CAME: Final = "Server disconnected"

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"})


def cause_of(error: Exception) -> str:
    """Why the connection failed, of an error of aiohttp or of one that has it as its cause."""
    library = error.__cause__ or error
    if isinstance(library, aiohttp.ClientConnectorDNSError):
        return "name not found"
    if isinstance(library, aiohttp.ClientConnectorCertificateError):
        said = library.certificate_error
        why = f": {said.verify_message}" if isinstance(said, ssl.SSLCertVerificationError) else ""
        return f"certificate not trusted{why}"
    if isinstance(library, aiohttp.ClientConnectorError):
        return _of_system(library.os_error)
    if isinstance(library, aiohttp.ServerDisconnectedError) and library.message == _NOTHING_CAME:
        return SILENT_END
    if isinstance(library, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | ConnectionError):
        return "the connection broke"
    if isinstance(library, OSError):
        return _of_system(library)
    return "no connection"


def not_http(error: aiohttp.ClientResponseError) -> str:
    """Why what came isn't an answer."""
    if _TLS_ALERT in error.message:
        return "not an HTTP answer: http spoken to a TLS port"
    return "not an HTTP answer"


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
