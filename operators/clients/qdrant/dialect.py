"""How Qdrant words its errors: `{"status": {"error": ...}}`, or a plain text where a key is refused."""

from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import orjson

from operators.clients.http.dialect import UNAUTHORIZED, Dialect, by_status
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, Reason
from schemas.texts import printable

_LONGEST: Final = 300
"""Characters of Qdrant's text in a message."""

_TIMEOUT: Final = "Timeout error"
_COLLECTION: Final = "Collection "


def error_of(name: str, status: int, body: bytes) -> BackendError:
    """The error of an answer without success. Its message quotes Qdrant's own text, in one line.

    A time-out of Qdrant's searches is status 500. What it refuses is told apart by the reason: the key, a collection
    that isn't there, any other request.
    """
    said = _said(body)
    if said is None:
        # A refused key is told in plain text. Anything else is a proxy's page, or of a server of another kind.
        return by_status(name, status, _line(body.decode("utf-8", "replace")) if status in UNAUTHORIZED else "")
    error = by_status(name, status, said)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and _TIMEOUT in said:
        return BackendTimeout(str(error), status)
    if isinstance(error, BackendBadResponse) and error.reason is Reason.BAD_RESPONSE:
        missing = status == HTTPStatus.NOT_FOUND and _COLLECTION in said
        return BackendBadResponse(str(error), status, Reason.NO_COLLECTION if missing else Reason.REFUSED)
    return error


def collection_of(path: str) -> str:
    """The collection that a request's path names."""
    match path.partition("?")[0].split("/"):
        case ["", "collections", name, *_]:
            return unquote(name)
    return ""


QDRANT: Final = Dialect(16 * 1024, error_of, collection_of)


def _said(body: bytes) -> str | None:
    try:
        match orjson.loads(body):
            case {"status": {"error": str(said)}}:
                return _line(said)
    except orjson.JSONDecodeError:
        pass
    return None


def _line(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
