"""Cursors: where the next page of a query begins, in a form that a client can carry but not change.

URL-safe base64 without padding of: version (1 byte), kind (1), the query (16), now (8), records to leave out (4), the
depth of the pool (2) or the last order value (8, where there is one), the last results (4 each), the state (16, where
there is one), and 16 bytes of HMAC-SHA256 over all before. Ahead of the state is the draft that the pages of an
experiment show (20). All big-endian. `kind` names the optional parts, so each cursor has one spelling, and any other
text is rejected. The version is 3 with results or a draft, which version 2 did not have.

Without a secret the key is public: a damaged cursor is found, a forged one is not.
"""

import hashlib
import hmac
import math
import struct
from dataclasses import dataclass
from typing import Any, Final

from operators.experiments.team_draft import DRAFT
from schemas.errors import DeadLetterClass, InputError, problem
from schemas.fields import unix_seconds
from schemas.texts import read_urlsafe, write_urlsafe

_VERSION, _LISTING = 2, 3
_PUBLIC: Final = b"rankstream cursor, without a secret"
_TAG: Final = 16
_DIGEST: Final = 16
"""Bytes of a query and of a state."""

_HEAD: Final = struct.Struct(f">BB{_DIGEST}sdI")
_OFFSET, _AFTER_NONE, _AFTER_INTEGER, _AFTER_FLOAT = range(4)
_VALUES: Final = [struct.Struct(form) for form in (">H", ">", ">q", ">d")]
"""By the kind of position: its depth, or its order value."""

_STATED, _CONTINUED, _LISTED, _DRAFTED = 0x10, 0x20, 0x40, 0x80
"""The bits of `kind`: there is a state, the pages are of several, there are results, there is a draft."""

_LATER: Final = _CONTINUED | _LISTED | _DRAFTED
"""The parts that version 2 did not have."""

_ID: Final = 4
"""Bytes of a result's digest."""

MOST_GIVEN: Final = 72
"""Results that a cursor knows: with more it would be longer than a query takes."""

_LONGEST: Final = ((_HEAD.size + 8 + MOST_GIVEN * _ID + DRAFT.size + _DIGEST + _TAG) * 4 + 2) // 3
"""Characters of the longest cursor."""

_FOREIGN: Final = "not the next_cursor of a result; send that one unchanged"


@dataclass(frozen=True, slots=True)
class PoolSlice:
    """A slice of a merged pool: `skip` records were given, and each leg was asked for `depth`, on later pages, too:
    another pool would have other scores.
    """

    skip: int
    depth: int


@dataclass(frozen=True, slots=True)
class After:
    """An ordered scroll: it goes on at this order value, of which `seen` records were given."""

    value: int | float | None
    seen: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position after a page of one query, cut from one state of index and configuration.

    `query` and `state` are digests of 16 bytes; `now` is the first page's clock in Unix seconds, which later ones keep.
    `given` has a digest of each of the last results. `continued`: the pages are cut from several states, so that only
    the results themselves say what was given. `draft`: the draft of an experiment, as `TeamDraft.write` writes it.
    """

    query: bytes
    state: bytes | None
    now: float
    position: PoolSlice | After
    given: tuple[bytes, ...] = ()
    continued: bool = False
    draft: bytes = b""


def result_digests(*ids: str) -> list[bytes]:
    """The digests by which a cursor knows results."""
    return [hashlib.blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=_ID).digest() for id_ in ids]


class CursorCodec:
    """Writes and reads cursors under one secret."""

    def __init__(self, secret: bytes | None) -> None:
        self._key = _PUBLIC if secret is None else secret

    def write(self, cursor: Cursor) -> str:
        """The cursor's one spelling.

        Integers are of 64 bits, signed, counts of 32, unsigned, depths of 16, above 0; floats are finite; there are at
        most MOST_GIVEN results.
        """
        value: tuple[int | float, ...] = ()
        match cursor.position:
            case PoolSlice(count, depth):
                kind, value = _OFFSET, (depth,)
            case After(None, count):
                kind = _AFTER_NONE
            case After(float(number), count):
                kind, value = _AFTER_FLOAT, (number,)
            case After(int(number), count):
                kind, value = _AFTER_INTEGER, (number,)
        state, given = cursor.state, b"".join(cursor.given)
        flags = kind | _STATED * (state is not None) | _CONTINUED * cursor.continued | _LISTED * bool(given)
        flags |= _DRAFTED * bool(cursor.draft)
        version = _LISTING if flags & _LATER else _VERSION
        head = _HEAD.pack(version, flags, cursor.query, cursor.now, count) + _VALUES[kind].pack(*value)
        body = head + given + cursor.draft + (state or b"")
        return write_urlsafe(body + self._tag(body))

    def read(self, text: str) -> Cursor:
        """The cursor that `write` spelled so; raises InputError of class `cursor_invalid` for every other text."""
        if len(text) > _LONGEST:
            raise _invalid(_FOREIGN, text)
        try:
            content = read_urlsafe(text)
        except ValueError:
            raise _invalid(_FOREIGN, text) from None
        if content[:1] not in {bytes([_VERSION]), bytes([_LISTING])}:
            raise _invalid("of no known version", text)
        body, tag = content[:-_TAG], content[-_TAG:]
        if not hmac.compare_digest(tag, self._tag(body)):
            raise _invalid("changed, or signed with another secret", text)
        cursor = _parse(body)
        if cursor is None:
            raise _invalid("of a form that no cursor has", text)
        return cursor

    def _tag(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_TAG]


def _parse(body: bytes) -> Cursor | None:
    """The cursor of a body, or None. Without a secret anyone can tag any body, so all of it is checked."""
    if len(body) < _HEAD.size:
        return None
    version, flags, query, now, count = _HEAD.unpack_from(body)
    stated, listed, kind = flags & _STATED, bool(flags & _LISTED), flags & ~(_STATED | _LATER)
    if kind >= len(_VALUES) or not _is_time(now) or (version == _LISTING) != bool(flags & _LATER):
        return None
    start, last = _HEAD.size + _VALUES[kind].size, len(body) - _DIGEST * bool(stated)
    end = last - DRAFT.size * bool(flags & _DRAFTED)
    results = body[start:end]
    if end < start or bool(results) != listed or len(results) % _ID or len(results) > MOST_GIVEN * _ID:
        return None
    given = tuple(results[at : at + _ID] for at in range(0, len(results), _ID))
    # An order value of None has no bytes.
    value: Any = next(iter(_VALUES[kind].unpack_from(body, _HEAD.size)), None)
    if (kind == _OFFSET and not value) or (kind == _AFTER_FLOAT and not math.isfinite(value)):
        return None
    position = PoolSlice(count, value) if kind == _OFFSET else After(value, count)
    state = body[last:] if stated else None
    return Cursor(query, state, now, position, given, bool(flags & _CONTINUED), body[end:last])


def _is_time(now: float) -> bool:
    try:
        unix_seconds(now)
    except ValueError:
        return False
    return True


def _invalid(what: str, text: str) -> InputError:
    return InputError(DeadLetterClass.CURSOR_INVALID, problem("cursor", what, text))
