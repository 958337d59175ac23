"""Qdrant's answers, validated: a reader raises ValueError for an answer of the wrong shape and guesses nothing.

Errors are `{"status": {"error": ...}}`, or a plain text where a key is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from itertools import repeat
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import orjson

from operators.clients.http.dialect import UNAUTHORIZED, Dialect, by_status, fit_float32
from operators.query.backend_answers import Hits, Record, RecordPage
from schemas.errors import BackendError, BackendTimeout, BackendUnavailable, Blame, Reason
from schemas.texts import printable

Payload = Mapping[str, Any]

WHOLE_NUMBERS: Final = "uint8"
"""The datatype of vectors of whole numbers from 0 on: of an embedder's numbers, it keeps next to nothing."""


class PayloadTest(NamedTuple):
    """A choice of points by their payloads.

    `test` is given a point's id and these fields of its payload.
    """

    fields: Sequence[str]
    test: Callable[[str, Payload], bool]


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection as Qdrant describes it; the vector without a name is called "".

    `vectors` and `sparse_vectors` map a name to its parameters, `indexes` a field to {data_type, params, points}.
    `strict` are the limits of its strict mode, empty where it is off. `by_key`: each shard key has `shards` of its own
    (`sharding_method: custom`), and a point is written with its key.
    """

    points: int
    shards: int
    vectors: Mapping[str, Payload]
    sparse_vectors: Mapping[str, Payload]
    indexes: Mapping[str, Payload]
    metadata: Payload
    strict: Payload
    by_key: bool = False


def read_batch(result: object, expected: int) -> list[Hits]:
    """The hits of `expected` searches."""
    searches = _list(result)
    if len(searches) != expected:
        raise ValueError(f"{len(searches)} results for {expected} searches")
    return [_hits(_list(_object(search).get("points"))) for search in searches]


class Points(NamedTuple):
    """Payloads by the ids of their points, and the vectors that were asked for of the points that have them."""

    payloads: dict[str, Payload]
    vectors: dict[str, Any]


def read_points(result: object, vector: str | None) -> Points:
    """Points with their vectors of this name; a vector alone is the one without a name."""
    points = _rows(result)
    ids, payloads = _ids([point.get("id") for point in points]), _payloads([point.get("payload") for point in points])
    found = zip(ids, points, strict=True)
    vectors = {id_: own for id_, point in found if vector is not None and (own := _vector(point, vector)) is not None}
    return Points(dict(zip(ids, payloads, strict=True)), vectors)


def read_page(result: object, vector: str | None = None) -> RecordPage:
    """A scroll's page, with the vectors of this name; a vector alone is the one without a name."""
    page = _object(result)
    offset = page.get("next_page_offset")
    records = list(map(_record, _rows(page.get("points")), repeat(vector)))
    return RecordPage(records, None if offset is None else read_id(offset))


def read_count(result: object) -> int:
    """A number of points."""
    return _count(_object(result).get("count"))


class ValueCounts(NamedTuple):
    """The number of points by value, for the commonest values.

    `cut`: there may be other values. Not `exact`: the numbers are approximate.
    """

    counts: dict[str | int, int]
    cut: bool
    exact: bool

    @property
    def whole(self) -> bool:
        """True if it has all values, and their exact numbers."""
        return self.exact and not self.cut


def read_facet(result: object) -> dict[str | int, int]:
    """Counts by value."""
    counts: dict[str | int, int] = {}
    for hit in _rows(_object(result).get("hits")):
        value = hit.get("value")
        if not isinstance(value, str | int):
            raise ValueError("a facet's value is neither a string nor an integer")
        counts[value] = _count(hit.get("count"))
    return counts


def read_info(result: object) -> CollectionInfo:
    """A collection's description."""
    info = _object(result)
    config = _object(info.get("config"))
    params = _object(config.get("params"))
    vectors = _object(params.get("vectors") or {})
    strict = _object(config.get("strict_mode_config") or {})
    return CollectionInfo(
        points=_count(info.get("points_count") or 0),
        shards=_count(params.get("shard_number") or 1),
        vectors=_objects({"": vectors} if "size" in vectors else vectors),
        sparse_vectors=_objects(_object(params.get("sparse_vectors") or {})),
        indexes=_objects(_object(info.get("payload_schema") or {})),
        metadata=_object(config.get("metadata") or {}),
        strict={name: limit for name, limit in strict.items() if limit is not None} if strict.get("enabled") else {},
        by_key=params.get("sharding_method") == "custom",
    )


def read_aliases(result: object) -> dict[str, str]:
    """Aliases, and the collection that each stands for."""
    names = {alias.get("alias_name"): alias.get("collection_name") for alias in _rows(_object(result).get("aliases"))}
    if not all(isinstance(name, str) and isinstance(physical, str) for name, physical in names.items()):
        raise ValueError("an alias without its collection")
    return {str(name): str(physical) for name, physical in names.items()}


def read_exists(result: object) -> bool:
    """True if a collection is there."""
    exists = _object(result).get("exists")
    if not isinstance(exists, bool):
        raise ValueError("neither true nor false")
    return exists


def read_update(result: object) -> None:
    """An update's acknowledgement, which must say that the update is done."""
    status = _object(result).get("status")
    if status != "completed":
        raise ValueError("an update that isn't completed")


def read_indexed(result: object) -> None:
    """An index's creation. A collection without a shard has nothing to index: there the creation is acknowledged."""
    if _object(result).get("status") not in {"completed", "acknowledged"}:
        raise ValueError("an index that isn't built")


def read_updates(result: object) -> None:
    """The acknowledgements of a batch of updates."""
    for update in _list(result):
        read_update(update)


def read_done(result: object) -> None:
    """A collection's creation, acknowledged."""
    if result is not True:
        raise ValueError("not acknowledged")


def read_id(value: object) -> str:
    """A point's id, as a string even where it is an integer."""
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise ValueError("an id is neither a string nor an integer")


def _hits(points: list[Any]) -> Hits:
    try:
        ids = [point["id"] for point in points]
        scores = [point["score"] for point in points]
        payloads = [point.get("payload") for point in points]
        versions = [point.get("version") for point in points]
    except (KeyError, TypeError, AttributeError):
        raise ValueError("a point without id or score") from None
    if not set(map(type, scores)) <= {float, int} or not fit_float32(scores):
        raise ValueError("a score is no finite number of 32 bits")
    # They only say what is cached: without them, nothing is.
    return Hits(_ids(ids), scores, _payloads(payloads), versions if set(map(type, versions)) <= {int} else ())


def _record(point: Payload, vector: str | None) -> Record:
    order_value = point.get("order_value")
    if order_value is not None and type(order_value) not in {float, int}:
        raise ValueError("an order value is no number")
    own = None if vector is None else _vector(point, vector)
    return Record(read_id(point.get("id")), _payload(point.get("payload")), order_value, own)


def _rows(value: object) -> list[dict[str, Any]]:
    rows = _list(value)
    # Nearly always all of them are well, as all together show without a call for each.
    return rows if set(map(type, rows)) <= {dict} else list(map(_object, rows))


def _ids(values: list[Any]) -> list[str]:
    return values if set(map(type, values)) <= {str} else list(map(read_id, values))


def _payloads(values: list[Any]) -> list[Payload]:
    return values if set(map(type, values)) <= {dict} else list(map(_payload, values))


def _payload(value: object) -> Payload:
    return {} if value is None else _object(value)


def _vector(point: Payload, name: str) -> Any:
    vector = point.get("vector") or {}
    return ({"": vector} if isinstance(vector, list) else _object(vector)).get(name)


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a count is no natural number")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object where one must be")
    return value


def _objects(value: Mapping[str, object]) -> dict[str, Payload]:
    return {name: _object(each) for name, each in value.items()}


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("not a list where one must be")
    return value


_LONGEST: Final = 300
"""Characters of Qdrant's text in a message."""


def error_of(name: str, status: int, body: bytes) -> BackendError:
    """The error of an answer without success. Its message quotes Qdrant's own text, in one line."""
    words = _words(body)
    if words is None and status == HTTPStatus.REQUEST_TIMEOUT:
        # Qdrant's own time-outs have its words. This one is of its HTTP server, which has waited 5 s for a request.
        return BackendUnavailable(f"{name}: status {status}: no request reached it in time", status, unread=True)
    if words is None:
        # A refused key has a plain text. Anything else is a proxy's page, or of a server of another kind.
        return by_status(name, status, _line(body.decode("utf-8", "replace")) if status in UNAUTHORIZED else "")
    return error_with(name, status, words)


def error_with(name: str, status: int, words: str) -> BackendError:
    """The error of a status and of Qdrant's own text: a refusal is that of the key, a missing collection, or a request.

    A time-out of searches is status 500. Qdrant bounds the rate of requests to one collection only; a proxy does so in
    words of its own.
    """
    words = _line(words)
    missing = status == HTTPStatus.NOT_FOUND and "Collection " in words
    error = by_status(name, status, words, Reason.NO_COLLECTION if missing else Reason.REFUSED)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and "Timeout error" in words:
        return BackendTimeout(str(error), status)
    return error.but(suspect=Blame.CONFIGURATION) if status == HTTPStatus.TOO_MANY_REQUESTS else error


def collection_of(path: str) -> str:
    """The collection that a request's path names."""
    match path.partition("?")[0].split("/"):
        case ["", "collections", name, *_]:
            return unquote(name)
    return ""


QDRANT: Final = Dialect(16 * 1024, error_of, collection_of)


def _words(body: bytes) -> str | None:
    with suppress(orjson.JSONDecodeError):
        match orjson.loads(body):
            case {"status": {"error": str(reason)}}:
                return reason
    return None


def _line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
