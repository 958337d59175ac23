"""Refusals in the words of Qdrant's server: each is answered with its status and `{"status": {"error": message}}`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import orjson
from qdrant_edge import EdgeShard

from operators.clients.qdrant_edge.shards import Collection, Refusal

T = TypeVar("T")


def run(collection: Collection, call: Callable[[EdgeShard], T]) -> T:
    """`call` on the shard; raises Refusal where the engine refuses or fails, and once the collection is closed."""
    try:
        return collection.run(call)
    except Refusal:
        raise
    except Exception as error:
        raise _refusal(str(error)) from error


def _refusal(message: str) -> Refusal:
    if message.startswith(("Service ", "Timeout ")):
        return Refusal(500, message)
    if message.startswith("No point with id"):
        return not_found(f"{message} found")
    return wrong_input(message)


def wrong_input(message: str) -> Refusal:
    """A well-formed request that this collection can't serve: 400."""
    return Refusal(400, f"Wrong input: {message}")


def bad_request(message: str) -> Refusal:
    """A body that doesn't have the shape of its request: 400."""
    return Refusal(400, f"Format error in JSON body: {message}")


def out_of_range(field: str, message: str) -> Refusal:
    """A body of the right shape with a value that is never allowed: 422."""
    return Refusal(422, f"Validation error in JSON body: [{field}: {message}]")


def not_found(message: str) -> Refusal:
    """A thing that the request names isn't there: 404."""
    return Refusal(404, f"Not found: {message}")


def no_collection(name: str) -> Refusal:
    """The collection isn't there: 404."""
    return not_found(f"Collection `{name}` doesn't exist!")


@contextmanager
def reading() -> Iterator[None]:
    """While a body is read, a value of the wrong type, a missing key or a word unknown to the engine is a Refusal."""
    try:
        yield
    except KeyError as error:
        raise bad_request(f"missing field `{error.args[0]}`") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise bad_request(str(error)) from error


def no_path() -> Refusal:
    """A path that isn't there: 404."""
    return not_found("there is no such path")


def read_body(content: bytes) -> Any:
    """The JSON body of a request; raises Refusal."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        ended = error.pos >= len(error.doc)
        message, column = ("EOF while parsing a value", error.colno - 1) if ended else ("expected value", error.colno)
        raise bad_request(f"{message} at line {error.lineno} column {column}") from error


def read_timeout(text: str | None) -> float | None:
    """The parameter `timeout` in seconds, None without one; raises Refusal."""
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        value = f"integer `{text}`" if text.isdecimal() else f'string "{text}"'
        message = f"invalid value: {value}, expected a nonzero u64"
        raise Refusal(400, f"Deserialize error in query parameters: {message}")
    return float(text)
