"""Impressions: a result that a user was shown by an experiment, and the token by which a client names it.

A token is URL-safe base64 without padding of: version (1 byte), the impression but for its side as a JSON array, and
16 bytes of HMAC-SHA256 over these and the side. The side is only in what is signed, so nobody without the secret can
read it: who knows the side may favour it. The reader tries both.
"""

import hmac
import json
from typing import Final, NamedTuple

from schemas.errors import invalid
from schemas.preference import Side
from schemas.texts import read_urlsafe, write_urlsafe

SIDES: Final[tuple[Side, Side]] = ("a", "b")

_VERSION: Final = b"\x01"
_TAG: Final = 16


class Impression(NamedTuple):
    """One result on a page. `rank` is from 0, on the first page; `issued_ms` is the query's timestamp in Kafka."""

    experiment: str
    side: Side
    rank: int
    document_id: str
    query_id: str
    namespace: str
    issued_ms: int


class TokenCodec:
    """Writes and reads tokens under one secret."""

    def __init__(self, secret: bytes) -> None:
        # Cursors are signed with the same secret: a part of one is no token.
        self._key = hmac.digest(secret, b"token", "sha256")

    def write(self, impression: Impression) -> str:
        """The impression's token; the same impression has the same token."""
        name, side, *rest = impression
        body = _VERSION + json.dumps([name, *rest], ensure_ascii=False, separators=(",", ":")).encode()
        return write_urlsafe(body + self._tag(body, side))

    def read(self, token: str) -> Impression:
        """The impression of a token; raises InputError for any text that `write` did not make under this secret."""
        try:
            content = read_urlsafe(token)
        except ValueError:
            content = b""
        body, tag = content[:-_TAG], content[-_TAG:]
        for side in SIDES:
            if hmac.compare_digest(tag, self._tag(body, side)):
                name, *rest = json.loads(body[1:])
                return Impression(name, side, *rest)
        raise invalid("token", "changed, or signed with another secret", token[:80])

    def _tag(self, body: bytes, side: Side) -> bytes:
        return hmac.digest(self._key, body + side.encode(), "sha256")[:_TAG]
