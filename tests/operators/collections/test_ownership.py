"""The owner of a collection: another's is only read, and rankstream's own is made whole or not at all."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operators.collections.requirements import indexes
from schemas.errors import BackendError, ConfigError
from tests.operators.indexing.asking import PLAIN, Server
from tests.qdrant_server import Behaviour, Keys, serve


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with the collection `plain` of another program, which has two points and an index of its own."""
    with serve(tmp_path) as url:
        made = Server(url)
        made.put("plain", PLAIN)
        made.index("plain", "author", type="keyword")
        points = [{"id": each, "vector": {"dense": [1.0, 0.0, 0.0, each]}, "payload": {}} for each in (1, 2)]
        made.put("plain/points?wait=true", {"points": points})
        yield made


def test_a_collection_of_another_program_is_left_alone(server: Server) -> None:
    """Nothing is created in it, and it is named; a collection that isn't there is created."""
    before = server.info("plain")
    ensured = server.ensure(writes=False)
    assert (ensured.created, ensured.foreign) == (["docs"], ["plain"])
    assert server.info("plain") == before
    assert server.info("docs").indexes.keys() == indexes().keys()


def test_no_document_is_written_to_a_collection_of_another_program(server: Server) -> None:
    """The indexing flow is refused in words that name the collection and both ways out, before anything is created."""
    before = server.info("plain")
    with pytest.raises(ConfigError) as caught:
        server.ensure()
    words = str(caught.value)
    assert words.startswith("Qdrant collection plain: it is not rankstream's own")
    assert "qdrant.owned" in words
    assert "qdrant.destinations" in words
    assert server.names() == {"plain"}
    assert server.info("plain") == before


def test_the_configuration_can_say_that_a_collection_is_rankstreams(server: Server) -> None:
    """It then gets the indexes that it lacks, and keeps those that it has."""
    ensured = server.ensure(owned=["plain"], vectors={"tokens": None})
    assert (ensured.created, ensured.foreign) == (["docs"], [])
    assert server.info("plain").indexes.keys() == {*indexes(), "author"}


def test_a_collection_says_by_its_metadata_that_it_is_rankstreams(server: Server) -> None:
    """So one that rankstream created needs no configuration, whatever its metadata say of the analyser."""
    server.put("docs", {**PLAIN, "metadata": {"rankstream": {}, "team": "search"}})
    found = server.survey(owned=["plain"])
    assert {name: each.owner for name, each in found.items()} == {"docs": "metadata", "plain": "configuration"}
    assert not any(each.foreign for each in found.values())


def test_metadata_of_another_program_say_nothing(server: Server) -> None:
    """And a collection that isn't there is nobody's."""
    server.put("docs", {**PLAIN, "metadata": {"owner": "rankstream"}})
    assert server.survey()["docs"].foreign
    assert not server.survey(destinations={"default": "absent"})["absent"].foreign


def test_an_alias_is_judged_by_its_collection(server: Server) -> None:
    """Its name in the configuration says nothing of whose it is; `owned` may name it."""
    action = {"create_alias": {"alias_name": "docs", "collection_name": "plain"}}
    server.put("aliases", {"actions": [action]}, method="POST")
    places = {"default": "docs"}
    found = server.survey(destinations=places)["docs"]
    assert (found.physical, found.foreign) == ("plain", True)
    assert server.survey(destinations=places, owned=["docs"])["docs"].owner == "configuration"


def test_what_differs_is_named_whole_before_anything_is_made(server: Server) -> None:
    """Wrong types and parameters of all collections are in one error, and none got an index or was created."""
    server.put("old", {**PLAIN, "metadata": {"rankstream": {}}})
    server.index("old", "title", type="keyword")
    server.index("old", "text", type="text", tokenizer="word", lowercase=True)
    places = {"default": "docs", "other": "plain", "third": "old"}
    before = server.info("old")
    with pytest.raises(ConfigError) as caught:
        server.ensure(destinations=places)
    lines = str(caught.value).splitlines()
    assert [line.split(". ")[0] for line in lines] == [
        "Qdrant collection plain: it is not rankstream's own, and no document is written to it",
        "Qdrant collection old: the vector tokens isn't there",
        "Qdrant collection old: the index of title is of type keyword, and should be text",
        "Qdrant collection old: the index of text is without phrase_matching",
    ]
    assert "DELETE /collections/old/index/title" in lines[2]
    assert server.names() == {"plain", "old"}
    assert server.info("old") == before


def test_what_only_takes_longer_stops_nothing(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """An index of the namespace that is no tenant's is told in the log, and the others are added."""
    server.put("docs", {**PLAIN, "metadata": {"rankstream": {}}})
    server.index("docs", "namespace", type="keyword")
    server.ensure(destinations={"default": "docs"}, vectors={"tokens": None})
    assert "the index of namespace is without is_tenant" in caplog.text
    assert server.info("docs").indexes.keys() == indexes().keys()


def test_a_collection_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    """A key for one collection surveys that one, and what it may not see is neither created nor taken for absent."""
    keys = Keys(full="all", tokens={"some": {"docs": "rw"}})
    with serve(tmp_path, Behaviour(keys=keys)) as url:
        every = Server(url, "all")
        every.put("docs", {**PLAIN, "metadata": {"rankstream": {}}})
        some = replace(every, key="some")
        found = some.survey()
        assert found["docs"].owner == "metadata"
        assert found["plain"].error is not None
        assert found["plain"].error.status == 403
        with pytest.raises(BackendError, match="Access to collection plain is required"):
            some.ensure(writes=False)
        assert every.names() == {"docs"}


def test_an_index_without_the_learned_vector_gets_no_more_documents(server: Server) -> None:
    """None can be added to a collection: the indexing flow is refused, for documents would lack what is searched."""
    places = {"default": "docs"}
    server.ensure(destinations=places)
    with pytest.raises(ConfigError, match="Qdrant collection docs: the sparse vector splade isn't there"):
        server.ensure(destinations=places, vectors={"learned": "splade"})
    created = server.ensure(destinations={"default": "again"}, vectors={"learned": "splade"}).created
    assert created == ["again"]
    assert server.survey(destinations={"default": "again"}, vectors={"learned": "splade"})["again"].gaps == []


def test_no_document_is_written_where_it_needs_a_shard_key(server: Server) -> None:
    """The indexing flow is refused at its start: Qdrant would refuse each document. The search flow is not."""
    server.put("keyed", {**PLAIN, "sharding_method": "custom"})
    keyed: dict[str, Any] = {"destinations": {"default": "keyed"}, "owned": ["keyed"], "vectors": {"tokens": None}}
    with pytest.raises(ConfigError, match=r"keyed: .* shard key .*sharding_method: custom"):
        server.ensure(**keyed)
    server.ensure(writes=False, **keyed)
