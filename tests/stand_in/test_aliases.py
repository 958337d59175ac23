"""An alias is its collection, for every request."""

from typing import Any

import pytest

from tests.stand_in.asking import Server

CREATED = {"vectors": {"size": 2, "distance": "Dot"}}


@pytest.fixture
def named(server: Server) -> Server:
    """Two collections of one point each; `live` is the first."""
    for number, name in enumerate(("blue", "green"), 1):
        server.done("PUT", f"/collections/{name}", CREATED)
        server.done("PUT", f"/collections/{name}/points", {"points": [{"id": number, "vector": [1.0, 0.0]}]})
    _change(server, {"create_alias": {"collection_name": "blue", "alias_name": "live"}})
    return server


def _change(server: Server, *actions: dict[str, Any]) -> None:
    assert server.done("POST", "/collections/aliases", {"actions": actions}) is True


def _ids(server: Server, name: str) -> list[Any]:
    return [point["id"] for point in server.done("POST", f"/collections/{name}/points/scroll", {})["points"]]


def test_every_route_takes_an_alias(named: Server) -> None:
    """Reads, writes, indexes and descriptions by alias are those of the collection."""
    named.done("PUT", "/collections/live/points", {"points": [{"id": 7, "vector": [0.0, 1.0], "payload": {"k": "a"}}]})
    named.done("PUT", "/collections/live/index", {"field_name": "k", "field_schema": "keyword"})
    assert named.done("POST", "/collections/live/facet", {"key": "k"}) == {"hits": [{"value": "a", "count": 1}]}
    assert named.done("POST", "/collections/live/points/count", {}) == {"count": 2}
    assert named.done("GET", "/collections/live") == named.done("GET", "/collections/blue")
    assert named.done("GET", "/collections/live/exists") == {"exists": True}
    assert _ids(named, "blue") == [1, 7]


def test_lists(named: Server) -> None:
    """Aliases are listed by collection and all together, and are no collections."""
    live = {"alias_name": "live", "collection_name": "blue"}
    assert named.done("GET", "/aliases") == {"aliases": [live]}
    assert named.done("GET", "/collections/blue/aliases") == {"aliases": [live]}
    assert named.done("GET", "/collections/green/aliases") == {"aliases": []}
    assert named.done("GET", "/collections") == {"collections": [{"name": "blue"}, {"name": "green"}]}


def test_a_swap(named: Server) -> None:
    """One request moves an alias to another collection."""
    _change(
        named,
        {"delete_alias": {"alias_name": "live"}},
        {"create_alias": {"collection_name": "green", "alias_name": "live"}},
    )
    assert _ids(named, "live") == [2]


def test_renaming_and_dropping(named: Server) -> None:
    """A renamed alias answers to its new name only; a dropped collection takes its aliases along."""
    _change(named, {"rename_alias": {"old_alias_name": "live", "new_alias_name": "now"}})
    assert _ids(named, "now") == [1]
    assert named.done("GET", "/collections/live/exists") == {"exists": False}
    named.done("DELETE", "/collections/blue")
    assert named.done("GET", "/aliases") == {"aliases": []}
    assert named.answer("GET", "/collections/now").status_code == 404


REFUSED = {
    "no such collection": (
        {"create_alias": {"collection_name": "red", "alias_name": "new"}},
        404,
        "Not found: Collection `red` doesn't exist!",
    ),
    "a collection's name": (
        {"create_alias": {"collection_name": "blue", "alias_name": "green"}},
        409,
        "Wrong input: Collection `green` already exists!",
    ),
    "no such alias": (
        {"rename_alias": {"old_alias_name": "dead", "new_alias_name": "new"}},
        404,
        "Not found: Alias dead does not exists!",
    ),
}


@pytest.mark.parametrize(("action", "status", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(named: Server, action: dict[str, Any], status: int, words: str) -> None:
    """An alias that names nothing, or takes a collection's name, is refused in the server's words."""
    response = named.answer("POST", "/collections/aliases", {"actions": [action]})
    assert (response.status_code, response.json()["status"]["error"]) == (status, words)


def test_no_collection_takes_an_aliass_name(named: Server) -> None:
    """A collection can't be created under the name of an alias."""
    words = "Can't create collection with name live. Alias with the same name already exists"
    assert named.refused("PUT", "/collections/live", CREATED) == f"Wrong input: {words}"
