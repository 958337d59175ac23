"""How the embedded engine refuses a request: the status and the words that Qdrant's server answers with."""

from collections.abc import Iterator
from contextlib import contextmanager


class Refusal(Exception):
    """A request that is answered with `status` (4xx or 5xx) and `{"status": {"error": message}}`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def wrong_input(message: str) -> Refusal:
    """A well-formed request that this collection can't serve: 400."""
    return Refusal(400, f"Wrong input: {message}")


def malformed(message: str) -> Refusal:
    """A body that doesn't have the shape of its request: 400."""
    return Refusal(400, f"Format error in JSON body: {message}")


def out_of_range(field: str, message: str) -> Refusal:
    """A body of the right shape with a value that is never allowed: 422."""
    return Refusal(422, f"Validation error in JSON body: [{field}: {message}]")


def not_found(message: str) -> Refusal:
    """Something that the request names isn't there: 404."""
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
        raise malformed(f"missing field `{error.args[0]}`") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise malformed(str(error)) from error
