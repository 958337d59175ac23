"""`rankstream check`: each thing that is wrong is a line that says what to do, and an error ends it with 1."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench import random_bert
from bench.stubs import DIMENSION, served, stub_backends
from operators.clients.qdrant_edge.shards import Engine
from tests.flows.cli.running import Command
from tests.operators.clients.model_servers.manners import DENSE
from tests.operators.clients.model_servers.playing import Manner, Playing, Reply, always
from tests.operators.indexing.asking import PLAIN, Server
from tests.qdrant_server import Behaviour, Keys, serve, transport

KEY = "a-key-of-its-own"
WITHOUT_KAFKA = ("--part", "qdrant", "--part", "embedder", "--part", "reranker")
SPARSE = {"tei": (), "openai": (Manner("s", "openai", "c", always(DENSE)),)}
STRICT = {
    "enabled": True,
    "max_query_limit": 100,
    "max_timeout": 1,
    "search_max_hnsw_ef": 64,
    "search_allow_exact": False,
    "unindexed_filtering_retrieve": False,
    "read_rate_limit": 600,
    "write_rate_limit": 50,
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with two keys, and `docs` as rankstream makes it."""
    with serve(tmp_path / "engine", Behaviour(keys=Keys(full=KEY, tokens={"some": {"plain": "r"}}))) as url:
        made = Server(url, KEY)
        made.ensure(destinations={"default": "docs"})
        yield made


@pytest.fixture
def command(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line, configured for `docs`."""
    monkeypatch.setenv("RANKSTREAM_QDRANT__API_KEY", KEY)
    return Command(
        tmp_path, monkeypatch, {"qdrant": {"url": server.url, "dimension": 4, "destinations": {"default": "docs"}}}
    )


def findings(command: Command, *parts: str, code: int) -> list[tuple[str, str, str]]:
    """Level, subject and text of each finding, with what to do; the command must end with this exit code."""
    done = command("check", "--json", *(parts or WITHOUT_KAFKA))
    assert done.exit_code == code, done.output
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(row["remedy"] for row in rows if row["level"] != "ok")
    return [(row["level"], row["subject"], f"{row['what']} -> {row['remedy']}") for row in rows]


def test_an_index_that_a_running_flow_has_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said that the collections are not looked at; models are, also one that reranks."""
    rerank = {"kind": "tei", "url": "http://127.0.0.1:9"}
    command = Command(tmp_path, monkeypatch, {"qdrant": {"path": str(tmp_path / "index")}, "rerank": rerank})
    with Engine(tmp_path / "index"):
        [found] = findings(command, "--part", "qdrant", code=0)
        assert found[:2] == ("ok", "qdrant")
        assert "is open in another process" in found[2]
        assert "not looked at" in found[2]
        [refused] = findings(command, "--part", "reranker", code=1)
        assert "Start the server, or correct rerank.url" in refused[2]


def test_an_experiment_without_the_secret_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of the configuration, as at the start of the search flow."""
    mixed = {"words": {"recipe": "rrf", "mode": "interleave"}}
    command = Command(tmp_path, monkeypatch, {"qdrant": {"url": "http://127.0.0.1:9"}, "experiments": mixed})
    command.settings["kafka"]["topics"] = {"experiments": "e"}
    assert "set cursor.signing_secret" in str(command("check", "--part", "chat").exception)
    monkeypatch.setenv("RANKSTREAM_CURSOR__SIGNING_SECRET", "s" * 40)
    assert command("check", "--part", "chat").exit_code == 0


@pytest.mark.parametrize("recipe", ["hybrid", "decay"])
def test_a_tier_of_decay_that_nothing_reads(
    recipe: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiers that no profile's recipe reads are a warning that names them; where one reads them there is none."""
    monkeypatch.setenv("RANKSTREAM_QDRANT__API_KEY", KEY)
    tier = {"half_life_days": 3}
    sections = {
        "qdrant": {"url": server.url, "dimension": 4, "destinations": {"default": "docs"}},
        "decay": {"destinations": {"default": tier}},
        "policies": {"sources": {"crm": {"decay": dict(tier)}}},
        "profiles": {"deep": {"recipe": recipe}},
    }
    found = findings(Command(tmp_path, monkeypatch, sections), "--part", "chat", code=0)
    warned = ["decay.destinations.default, policies.sources.crm.decay are not read"] * (recipe == "hybrid")
    assert [words in what for (_, subject, what), words in zip(found, warned, strict=False)] == [True] * len(warned)
    assert ("decay" in {subject for _, subject, _ in found}) == (recipe == "hybrid")


def told(found: list[tuple[str, str, str]], level: str, *words: str) -> bool:
    """True if a finding of this level has all of the words."""
    return any(each[0] == level and all(word in each[2] for word in words) for each in found)


def test_where_all_is_well_every_line_is_ok(command: Command, server: Server) -> None:
    """The server's address, and of the collection that it is there, whose it is, and that it fits."""
    done = command("check", *WITHOUT_KAFKA)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"ok      qdrant: {server.url} answers.",
        "ok      qdrant docs: the collection docs is there, with 0 points.",
        "ok      qdrant docs: the collection is rankstream's own.",
        "ok      qdrant docs: the vectors fit the configuration.",
        "ok      qdrant docs: the indexes are there.",
        "ok      embedder: none is configured: queries and documents bring their vectors.",
        "ok      reranker: late_interaction: no server is needed.",
    ]


def test_a_collection_that_is_not_there_is_an_error_with_the_command(command: Command, server: Server) -> None:
    """Nothing is created."""
    command.settings["qdrant"]["destinations"] = {"default": "docs", "other": "plain"}
    found = findings(command, code=1)
    assert ("error", "qdrant plain") in [each[:2] for each in found]
    assert told(found, "error", "does not exist", "rankstream collections --create")
    assert server.names() == {"docs"}


def test_a_collection_of_another_program_is_told_in_full(command: Command, server: Server) -> None:
    """The check names the owner, alias, unsearchable legs, shards and limits, and the command for its indexes."""
    server.put("plain", {"vectors": {"size": 4, "distance": "Cosine"}, "shard_number": 3, "strict_mode_config": STRICT})
    server.put("aliases", {"actions": [{"create_alias": {"alias_name": "live", "collection_name": "plain"}}]}, "POST")
    command.settings["qdrant"]["destinations"] = {"default": "live"}
    found = findings(command, code=1)
    assert {each[1] for each in found if each[1].startswith("qdrant ")} == {"qdrant live"}
    assert told(found, "ok", "the collection plain is there, by its alias live")
    assert told(found, "warning", "another program created", "rankstream index does not start", "qdrant.owned")
    assert told(found, "error", "the vector leg cannot search", "the vector dense isn't there", "qdrant.vectors")
    assert told(found, "warning", "the keyword leg finds nothing", "bm25 isn't there")
    assert told(found, "warning", "late interaction is off here", "tokens isn't there")
    assert told(
        found, "error", "strict mode refuses", "subject (keyword, prefix)", "rankstream collections --add-indexes"
    )
    # Without a keyword leg no term is counted.
    assert not told(found, "warning", "3 shards")
    assert told(found, "warning", "100 points at most", "asks for 500", "max_query_limit")
    assert told(found, "warning", "hnsw_ef to 64", "384", "search_max_hnsw_ef")
    assert told(found, "warning", "1 s", "qdrant.timeout is 2 s", "max_timeout")
    assert told(found, "warning", "600 searches a minute", "read_rate_limit")
    assert told(found, "warning", "50 documents a minute", "write_rate_limit")


def test_a_collection_of_an_earlier_version_expires_nothing(command: Command, server: Server) -> None:
    """The check says that `expires_at` is a mere field there, and warns if documents have a default age."""
    server.put("old", {**PLAIN, "metadata": {"rankstream": {}}})
    command.settings["qdrant"]["destinations"] = {"default": "old"}
    assert told(findings(command, code=1), "ok", "documents do not expire", "expires_at is a field as any other")
    command.settings["documents"] = {"expire_after": {"sessions": 60}}
    assert told(findings(command, code=1), "warning", "documents do not expire", "Index all documents again")
    command.settings["qdrant"]["destinations"] = {"default": "docs"}
    assert not told(findings(command, code=0), "ok", "documents do not expire")


@pytest.mark.parametrize(("version", "old"), [("1.18.2", True), ("1.19.0", False), ("2.0.0", False)])
def test_a_server_of_an_earlier_version_is_told(
    command: Command, monkeypatch: pytest.MonkeyPatch, version: str, old: bool
) -> None:
    """It answers, and may not in all parts: the warning names both versions, and the exit code stays."""
    monkeypatch.setitem(transport.ROOT, "version", version)
    found = findings(command, code=0)
    assert told(found, "warning", f"the server is Qdrant {version}", "needs 1.19 or newer", "Upgrade Qdrant") == old


def test_terms_of_another_language_are_told(command: Command) -> None:
    """By the check with the cure, and by `collections`: a collection keeps the analyser that it was made with."""
    line = "language english, and the configuration has german"
    assert not told(findings(command, code=0), "warning", line)
    assert line not in command("collections").stdout
    command.settings["qdrant"]["bm25"] = {"language": "german", "accents": "fold"}
    found = findings(command, code=0)
    both = f"the keyword leg analyses texts as the index was made: {line}; accents keep, and the configuration has fold"
    assert told(found, "warning", both, "rankstream reindex")
    assert line in command("collections").stdout
    [row] = map(json.loads, command("collections", "--json").stdout.splitlines())
    assert row["differences"] == [line, "accents keep, and the configuration has fold"]


def test_several_shards_are_told(command: Command) -> None:
    """Qdrant counts in each how rare a term is, also in a collection that rankstream created."""
    command.settings["qdrant"] |= {"destinations": {"default": "wide"}, "create": {"shards": 3}}
    assert command("collections", "--create").exit_code == 0
    assert told(findings(command, code=0), "warning", "3 shards", "depend on a document's shard")


@pytest.mark.parametrize("owned", [True, False])
def test_shards_by_key_are_told(command: Command, server: Server, owned: bool) -> None:
    """Each has its own count of a term's documents, also where there is one shard a key; no document is written."""
    server.put("keyed", {**PLAIN, "sharding_method": "custom"})
    command.settings["qdrant"] |= {"destinations": {"default": "keyed"}, "owned": ["keyed"] if owned else []}
    found = findings(command, code=int(owned))
    assert told(found, "warning", "shards by key", "rarity")
    assert bool(told(found, "error", "rankstream index does not start", "shard key")) == owned


def test_without_late_interaction_token_vectors_are_not_missed(command: Command, server: Server) -> None:
    """Another program's collection has none, and needs none."""
    server.put("plain", PLAIN)
    command.settings |= {"rerank": {"kind": "none"}}
    command.settings["qdrant"]["destinations"] = {"default": "plain"}
    found = findings(command, code=0)
    assert not any("tokens" in each[2] for each in found)
    assert told(found, "warning", "fields without an index", "subject (keyword, prefix)", "--add-indexes")


def test_late_interaction_does_without_exact_searches(command: Command, server: Server) -> None:
    """Token vectors have no index: strict mode may forbid Qdrant to compare them, and to count tokens."""
    server.put("docs", {"strict_mode_config": {"enabled": True, "search_allow_exact": False}}, "PATCH")
    assert told(findings(command, code=0), "warning", "fetches the token vectors", "search_allow_exact")
    assert told(findings(command, code=0), "warning", "weighs rare and common tokens alike")
    server.put("docs", {"strict_mode_config": {"search_allow_exact": True, "max_query_limit": 100}}, "PATCH")
    assert not told(findings(command, code=0), "warning", "fetches the token vectors")
    assert told(findings(command, code=0), "warning", "weighs rare and common tokens alike")
    command.settings |= {"rerank": {"kind": "none"}}
    assert not told(findings(command, code=0), "warning", "tokens")


def test_a_collection_of_ours_that_differs_is_an_error(command: Command, server: Server) -> None:
    """The length of its vectors, and what an index can do: with the request that takes the index away."""
    server.index("docs", "title", type="text", tokenizer="word")
    command.settings["qdrant"] |= {"dimension": 8, "indexes": {"subject_id": "keyword"}}
    found = findings(command, code=1)
    assert told(found, "error", "the vector leg cannot search: the vector dense has size 4, and should have 8")
    assert told(found, "error", "title is without phrase_matching", "DELETE /collections/docs/index/title")
    assert told(found, "warning", "fields without an index", "subject_id (keyword, prefix)")


def test_an_index_of_another_program_is_not_to_be_deleted(command: Command, server: Server) -> None:
    """It may rely on it: a wrong index in its collection is a warning, with another way out."""
    server.put("plain", PLAIN)
    server.index("plain", "title", type="keyword")
    command.settings["qdrant"]["destinations"] = {"default": "plain"}
    found = findings(command, code=0)
    assert told(found, "warning", "title is of type keyword, and should be text", "the other program may rely on")
    assert not any("DELETE" in each[2] for each in found)


def test_a_key_is_judged_for_each_collection(command: Command, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that may see one of two collections fits that one; what Qdrant says of the other is quoted."""
    server.put("plain", PLAIN)
    command.settings["qdrant"]["destinations"] = {"default": "docs", "other": "plain"}
    monkeypatch.setenv("RANKSTREAM_QDRANT__API_KEY", "some")
    found = findings(command, code=1)
    assert told(found, "ok", "the collection plain is there")
    assert told(found, "error", "403", "Access to collection docs is required", "qdrant.api_key")
    monkeypatch.setenv("RANKSTREAM_QDRANT__API_KEY", "wrong")
    assert told(findings(command, code=1), "error", "Invalid API key", "qdrant.api_key")


def test_a_server_that_does_not_answer_is_one_error(command: Command) -> None:
    """With the address and the cause; the other sections are checked all the same."""
    command.settings["qdrant"] |= {"url": "http://127.0.0.1:9", "destinations": {"default": "docs", "other": "plain"}}
    found = findings(command, code=1)
    assert [each[:2] for each in found][:1] == [("error", "qdrant")]
    assert told(found, "error", "no answer: qdrant at http://127.0.0.1:9: connection refused", "qdrant.url")
    assert [each[1] for each in found] == ["qdrant", "embedder", "reranker"]


def test_a_port_of_another_protocol_does_not_answer(command: Command) -> None:
    """A server that is not of HTTP, such as Qdrant's port of gRPC, is said to be no answer, with the right port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                with server.accept()[0] as connection:
                    connection.recv(1 << 16)
                    connection.sendall(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00")

        threading.Thread(target=answer, daemon=True).start()
        command.settings["qdrant"]["url"] = f"http://127.0.0.1:{server.getsockname()[1]}"
        found = findings(command, code=1)
    assert not told(found, "ok", "answers")
    assert told(found, "error", "no answer", "not an HTTP answer", "its HTTP port (6333)")


def test_a_configuration_that_cannot_be_used_is_an_error_of_its_section(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of the section, without its secrets."""
    monkeypatch.setenv("RANKSTREAM_QDRANT__API_KEY", "canary\u00e9")
    found = findings(command, code=1)
    assert told(found, "error", "the header api-key may hold printable ASCII only", "Correct the section qdrant")
    assert "canary" not in str(found)


@pytest.mark.parametrize("kind", ["minilm", "onnx"])
def test_a_cache_that_cannot_be_written_is_no_error_of_a_model(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """Whichever model would be kept there, the setting is named, and the cure is another directory."""
    monkeypatch.delenv("RANKSTREAM_CACHE_DIR", raising=False)
    (tmp_path / "file").write_text("")
    random_bert.write(tmp_path / "model", hidden=64)
    command.settings["cache_dir"] = str(tmp_path / "file")
    command.settings["qdrant"]["dimension"] = 384
    command.settings["rerank"] = {"kind": "onnx", "path": str(tmp_path / "model"), "precision": "int8"}
    if kind == "minilm":
        command.settings["embedder"] = {"kind": "minilm"}
    found = findings(command, "--part", "reranker", code=1)
    assert told(found, "error", f"cache_dir: {tmp_path}/file can't be written", "Name a directory")
    assert not told(found, "error", "section")


def test_the_embedder_and_the_reranker_are_called_once(command: Command, server: Server) -> None:
    """Servers that answer are ok; vectors of another length than the index's, and a server that is gone, are errors."""
    with stub_backends() as stubs:
        command.settings |= {
            "embedder": {"kind": "openai", "url": stubs.embed},
            "rerank": {"kind": "cohere", "url": stubs.rerank},
        }
        wrong = findings(command, code=1)
        server.ensure(destinations={"default": "other"}, dimension=DIMENSION)
        command.settings["qdrant"] |= {"dimension": DIMENSION, "destinations": {"default": "other"}}
        right = findings(command, code=0)
    gone = findings(command, code=1)
    assert told(wrong, "error", "another dimension than 4", "embedder")
    assert [each[:2] for each in right][-2:] == [("ok", "embedder"), ("ok", "reranker")]
    assert told(right, "ok", "openai", "characters a second", "a text of 65,536 characters is taken")
    assert told(right, "ok", "cohere", "characters a second", "scores are in [0, 1]")
    assert [each[:2] for each in gone][-2:] == [("error", "embedder"), ("error", "reranker")]
    assert told(gone, "error", "connection refused", "rerank.url")


def test_the_sparse_encoder_is_called_once(command: Command) -> None:
    """One that answers is measured; dense vectors in place of terms, and a collection without the vector, are told."""
    app = web.Application()
    playing = {kind: Playing("sparse_encoder", kind, *manners) for kind, manners in SPARSE.items()}

    async def handle(request: web.Request) -> web.StreamResponse:
        return await playing["tei" if request.path == "/embed_sparse" else "openai"](request)

    app.router.add_route("*", "/{path:.*}", handle)
    command.settings["qdrant"]["vectors"] = {"learned": "splade"}
    parts = ("--part", "qdrant", "--part", "sparse_encoder")
    with served(app) as url:
        command.settings |= {"sparse_encoder": {"kind": "tei", "url": url, "model": "m"}}
        found = findings(command, *parts, code=1)
        command.settings["sparse_encoder"]["kind"] = "openai"
        wrong = findings(command, *parts, code=1)
    lacks = "the sparse vector splade isn't there"
    assert told(found, "warning", f"the leg learned finds nothing: {lacks}", "qdrant.vectors.learned")
    assert told(found, "error", f"rankstream index does not start: {lacks}")
    assert told(found, "ok", "tei, m answers", "characters a second", "a text of 65,536 characters is taken")
    assert told(wrong, "error", "neither a list of terms nor an object", "Correct sparse_encoder.kind")


@pytest.mark.parametrize("kind", ["cohere", "tei_predict"])
def test_a_reranker_that_refuses_a_text_is_an_error(command: Command, kind: str) -> None:
    """A refusal is an error, of the call or of the one pair in it."""

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"error": "no"}, status=422)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    with served(app) as url:
        command.settings |= {"rerank": {"kind": kind, "url": url}}
        assert ("error", "reranker") in [each[:2] for each in findings(command, code=1)]


def test_the_longest_text_that_is_taken_is_measured(command: Command) -> None:
    """With the server's reason for the next one."""
    manner = Manner(
        "s", "vllm", "c", lambda call: Reply(400, {"error": "over the context"}) if len(call.texts[0]) > 4096 else None
    )
    app = web.Application()
    playing = Playing("reranker", "vllm", manner)

    async def handle(request: web.Request) -> web.StreamResponse:
        return await playing(request)

    app.router.add_route("*", "/{path:.*}", handle)
    with served(app) as url:
        command.settings |= {"rerank": {"kind": "vllm", "url": url, "model": "m"}}
        assert told(
            findings(command, code=0), "ok", "a text of 4,096 characters is taken, of 8,192 not: ", "refuses 1 of"
        )
