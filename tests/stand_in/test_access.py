"""Keys and tokens let through what a server's do, and the others are refused in its words."""

from typing import Any

import httpx
import pytest

from tests.qdrant_server import Behaviour, Keys
from tests.stand_in.asking import Server

CREATED = {"vectors": {"size": 2, "distance": "Dot"}}
POINTS = {"points": [{"id": 1, "vector": [1.0, 0.0]}]}
INDEX = {"field_name": "k", "field_schema": "keyword"}
KEYS = Keys("full", "look", {"reader": {"docs": "r"}, "writer": {"docs": "rw"}, "points": {"docs": "prw"}})


@pytest.fixture
def guarded(stand_in: Server, behaviour: Behaviour) -> Server:
    """Two collections on a server with keys."""
    for name in ("docs", "topics"):
        stand_in.done("PUT", f"/collections/{name}", CREATED)
    behaviour.keys = KEYS
    return stand_in


ALLOWED = [
    ("full", "DELETE", "/collections/topics", None),
    ("look", "GET", "/collections/docs", None),
    ("look", "POST", "/collections/docs/points/scroll", {}),
    ("look", "GET", "/collections", None),
    ("reader", "POST", "/collections/docs/points/count", {}),
    ("reader", "GET", "/collections/docs/exists", None),
    ("writer", "PUT", "/collections/docs/points", POINTS),
    ("writer", "PUT", "/collections/docs/index", INDEX),
    ("points", "PUT", "/collections/docs/points", POINTS),
]
REFUSED = [
    ("look", "PUT", "/collections/new", CREATED, "Global manage access is required"),
    ("look", "PUT", "/collections/docs/points", POINTS, "Global manage access is required"),
    ("look", "POST", "/collections/docs/points/delete", {"points": [1]}, "Global manage access is required"),
    ("reader", "GET", "/collections/topics", None, "Access to collection topics is required"),
    ("reader", "GET", "/collections/topics/exists", None, "Access to collection topics is required"),
    ("reader", "POST", "/collections/topics/points/scroll", {}, "Access to collection topics is required"),
    ("reader", "PUT", "/collections/docs/points", POINTS, "Write access to collection docs is required"),
    ("writer", "PUT", "/collections/new", CREATED, "Global access is required"),
    ("writer", "PATCH", "/collections/docs", {}, "Global access is required"),
    ("points", "PUT", "/collections/docs/index", INDEX, "Only points access is allowed for collection docs"),
]


def _ids(rows: list[Any]) -> list[str]:
    return [f"{key} {method} {path}" for key, method, path, *_ in rows]


@pytest.mark.parametrize(("key", "method", "path", "body"), ALLOWED, ids=_ids(ALLOWED))
def test_allowed(guarded: Server, key: str, method: str, path: str, body: Any) -> None:
    """A key, in either header, opens what it is for."""
    assert guarded.answer(method, path, body, {"api-key": key}).status_code == 200
    # Every write of the list can be repeated, but a dropped collection is `false` then; all are answered.
    assert guarded.answer(method, path, body, {"authorization": f"Bearer {key}"}).status_code == 200


@pytest.mark.parametrize(("key", "method", "path", "body", "words"), REFUSED, ids=_ids(REFUSED))
def test_refused(guarded: Server, key: str, method: str, path: str, body: Any, words: str) -> None:
    """A key that isn't for the request is refused with 403, before anything is said of the collection."""
    response = guarded.answer(method, path, body, {"api-key": key})
    assert (response.status_code, response.json()["status"]["error"]) == (403, f"Forbidden: {words}")


def test_a_token_sees_its_collections_only(guarded: Server) -> None:
    """A list of collections shows a token those that it may see."""
    listed = guarded.answer("GET", "/collections", headers={"api-key": "reader"}).json()
    assert listed["result"] == {"collections": [{"name": "docs"}]}


def test_an_alias_is_not_its_collection(guarded: Server, behaviour: Behaviour) -> None:
    """A token for a collection opens none of its aliases: access is by the name that was asked."""
    behaviour.keys = Keys()
    actions = [{"create_alias": {"collection_name": "docs", "alias_name": "live"}}]
    guarded.done("POST", "/collections/aliases", {"actions": actions})
    behaviour.keys = KEYS
    response = guarded.answer("GET", "/collections/live", headers={"api-key": "reader"})
    assert response.status_code == 403
    assert "Access to collection live is required" in response.text


@pytest.mark.parametrize("path", ["/", "/readyz", "/livez", "/healthz"])
def test_open_without_a_key(guarded: Server, path: str) -> None:
    """Health is told to everyone."""
    assert guarded.answer("GET", path).status_code == 200


@pytest.mark.parametrize("path", ["/collections", "/collections/docs", "/nowhere", "/metrics"])
def test_closed_without_a_key(guarded: Server, path: str) -> None:
    """Without a key, or with a wrong one, there is 401 in plain words, whatever the path."""
    without: httpx.Response = guarded.answer("GET", path)
    assert (without.status_code, without.text) == (401, "Must provide an API key or an Authorization bearer token")
    wrong = guarded.answer("GET", path, headers={"api-key": "wrong"})
    assert (wrong.status_code, wrong.text) == (401, "Invalid API key or JWT")
