"""Reading the configuration: file, environment and overrides, and errors that name every path at once."""

from pathlib import Path

import pytest
import yaml

from schemas.errors import ConfigError
from schemas.settings import load

LEAST: dict[str, dict[str, object]] = {"qdrant": {"url": "http://qdrant:6333"}}


def written(directory: Path, document: object) -> Path:
    """A configuration file."""
    path = directory / "rankstream.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document), encoding="utf-8")
    return path


def topics(**names: object) -> dict[str, object]:
    """A section `kafka` with these topics."""
    return {"topics": names}


def places(**names: object) -> dict[str, object]:
    """A section `qdrant` with these settings beside the least."""
    return {"qdrant": {**LEAST["qdrant"], **names}}


def refusal(directory: Path, document: object) -> str:
    """The message about a file."""
    with pytest.raises(ConfigError) as caught:
        load(written(directory, document))
    return str(caught.value)


def test_the_least_configuration(tmp_path: Path) -> None:
    """The place of Qdrant must be said; everything else has a default."""
    settings = load(written(tmp_path, LEAST))
    assert settings.qdrant.url == "http://qdrant:6333"
    assert settings == load(None, LEAST)
    assert (settings.delivery.mode, settings.delivery.max_in_flight) == ("exactly_once", 512)


def test_the_environment_goes_over_the_file_and_the_file_over_the_overrides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three values for one path the environment's counts, then the file's; untouched ones of a section stay."""
    under = {**LEAST, "limits": {"timeout": 1, "max_timeout": 2, "max_text_chars": 3}}
    path = written(tmp_path, {"limits": {"timeout": 10, "max_timeout": 20}})
    monkeypatch.setenv("RANKSTREAM_LIMITS__TIMEOUT", "50")
    limits = load(path, under).limits
    assert (limits.timeout, limits.max_timeout, limits.max_text_chars) == (50, 20, 3)


def test_an_index_is_taken_where_none_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, or a variable, that says anything of Qdrant says all of it."""
    recipes = written(tmp_path, {"recipes": {"mine": {"stages": [{"vector": {}}]}}})
    assert load(recipes, index=tmp_path).qdrant.path == tmp_path
    assert load(written(tmp_path, LEAST), index=tmp_path).qdrant.path is None
    monkeypatch.setenv("RANKSTREAM_QDRANT__URL", "http://other:6333")
    recipes = written(tmp_path, {"limits": {"timeout": 1}})
    assert load(recipes, index=tmp_path).qdrant.path is None


def test_every_error_is_named_by_its_path_at_once(tmp_path: Path) -> None:
    """Wrong types, unknown keys, values out of range and missing parts are one message, a line each."""
    message = refusal(
        tmp_path,
        {
            "qdrant": {"url": "not a url", "dimension": 0, "vectors": {"dence": "x"}},
            "limits": {"timeout": -1},
            "embedder": {"kind": "tei"},
            "rerank": {"timeout": -2, "top": "many"},
            "kafka": {"topics": {"queries": "no spaces"}},
            "colour": "blue",
        },
    )
    paths = {line.split(":")[0] for line in message.splitlines()}
    assert paths == {
        "qdrant.url",
        "qdrant.dimension",
        "qdrant.vectors.dence",
        "limits.timeout",
        "embedder",
        "rerank.timeout",
        "rerank.top",
        "kafka.topics.queries",
        "colour",
    }


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "qdrant: missing"),
        ({"qdrant": {}}, "set one of url and path"),
        ({"qdrant": {"url": "http://q", "path": "/x"}}, "set one of url and path"),
        ({**LEAST, "embedder": {"kind": "openai"}}, "openai needs url"),
        ({**LEAST, "rerank": {"kind": "cohere"}}, "cohere needs url"),
        (places(collections={"moon": {"a": "b"}}), "qdrant.collections: moon: not in qdrant.destinations"),
        (places(collections={"default": {"a": "documents"}}), "default: two parts in one Qdrant collection"),
        (places(collections={"default": {"a": "b", "c": "b"}}), "default: two parts in one Qdrant collection"),
        (places(indexes={"_version": "integer"}), "indexes: _version: names that start with an underscore"),
        (places(indexes={"year": "text"}), "qdrant.indexes.year"),
        (
            {**LEAST, "policies": {"default": {"deny": {"profiles": ["dep"]}}}},
            "policies.default.deny.profiles: dep: not in profiles",
        ),
        ({**LEAST, "profiles": {"mine": {"recipe": "x"}}}, "profiles.mine.recipe: not in recipes"),
        ({**LEAST, "profiles": {"mine": {"group_by": "x"}}}, "profiles.mine.group_by: nothing to group by; add it to"),
        ({**LEAST, "defaults": {"group_by": "x"}}, "defaults.group_by: nothing to group by; add it to qdrant.indexes"),
        (
            {**LEAST, "policies": {"sources": {"a": {"destinations": ["moon"]}}}},
            "policies.sources.a.destinations: moon: not in qdrant.destinations",
        ),
        (
            {**LEAST, "policies": {"default": {"reply_to": ["results", "queries"]}}},
            "policies.default.reply_to: queries: neither kafka.topics.results nor one of kafka.topics.reply_to",
        ),
        (
            {**LEAST, "policies": {"identity": {"by": "topic", "topics": {"typo": "a"}}}},
            "policies.identity.topics: typo: not kafka.topics.queries",
        ),
        (places(indexes={"subject": "integer"}), "indexes: subject: these have an index of their own"),
        (places(indexes={"my field": "integer"}), "indexes: my field: no filter can name this field"),
        (places(columns={"head": "heading"}), "columns: head: not one of search_fields"),
        (places(columns={"my head": "title"}), "columns: my head: a name is one word"),
        (places(columns={"head": "title", "Head": "text"}), "columns: two names differ in their case only"),
        (places(analysers={"moon": {}}), "analysers: moon: not a Qdrant collection"),
        ({**LEAST, "sparse_encoder": {"kind": "tei", "url": "http://s"}}, "sparse_encoder: tei needs url and model"),
        ({**LEAST, "sparse_encoder": {"kind": "splade"}}, "sparse_encoder.kind: "),
        ({**LEAST, "sparse_encoder": {"body": {"inputs": ["a"]}}}, "sparse_encoder.body: inputs: a field that"),
        (
            {**LEAST, "sparse_encoder": {"kind": "tei", "url": "http://s", "model": "m"}},
            "sparse_encoder.kind: tei needs a vector, and qdrant.vectors.learned is null",
        ),
        (
            places(vectors={"learned": "splade"}),
            "qdrant.vectors.learned: splade needs an encoder, and sparse_encoder.kind is none",
        ),
        (places(vectors={"learned": "bm25"}), "qdrant.vectors: learned: bm25: another vector has this name"),
        (places(vectors={"learned": ""}), "qdrant.vectors: learned: only a dense vector may have no name"),
        (places(owned=["moon"]), "owned: moon: not a Qdrant collection"),
        (places(owned=["documents"], ids="uuid"), "owned: fields, ids, namespaces and vectors describe collections"),
        (places(fields={"_version": "at"}), "fields: _version: no name of a field"),
        (places(fields={"text": "a..b"}), "fields.text: a path such as metadata.tenant"),
        (places(fields={"text": "a", "title": "a"}), "fields: two names of one path"),
        (places(fields={"id": "a"}, ids="uuid"), "fields.id: ids says"),
        (places(fields={"namespace": "a"}, namespaces="none"), "fields.namespace: namespaces says"),
        (places(fields={"labels": "a#b"}), "fields.labels: Qdrant cannot filter by what is in a string"),
        ({**LEAST, "decay": {"collections": {"default": {"a": {}}}}}, "decay.collections.default: a: not in"),
        ({**LEAST, "cache": {"threshold": 1.1}}, "cache.threshold: "),
        ({**LEAST, "cache": {"watermark_timeout": 11}}, "cache.watermark_timeout: "),
        ({**LEAST, "kafka": None}, "kafka: "),
        ({**LEAST, "kafka": {1: 2}}, "kafka.1"),
        (
            {**LEAST, "kafka": topics(reply_to=["a", "b", "a"])},
            "kafka.topics.reply_to: a topic is listed twice",
        ),
        ({**LEAST, "kafka": topics(reply_to=["queries"])}, "reply_to: lists the topic of queries"),
        ({**LEAST, "kafka": topics(reply_to=["x"], documents="x")}, "lists the topic of documents"),
        ({**LEAST, "kafka": topics(reply_to=["dead-letters", "y"], watermarks="y")}, "of dead_letters, watermarks"),
        (
            {**LEAST, "kafka": topics(reply_to=["a.*", "d*s"])},
            "of documents, dead_letters, or has a pattern that fits it",
        ),
        (
            {**LEAST, "kafka": topics(reply_to=["a.*"]), "policies": {"default": {"reply_to": ["a.b.*", "b.*"]}}},
            "policies.default.reply_to: b.*: neither kafka.topics.results nor one of kafka.topics.reply_to",
        ),
        ({**LEAST, "kafka": topics(reply_to=["no spaces"])}, "kafka.topics.reply_to.0"),
        ({**LEAST, "kafka": topics(reply_to="answers")}, "kafka.topics.reply_to: Input should be a valid list"),
        ({"qdrant": LEAST["qdrant"], 1: 2}, "not a mapping of sections"),
        ("- a\n- b\n", "not a mapping of sections"),
        ("just text", "not a mapping of sections"),
        ("a: [\n", "not YAML at line 2"),
        ("a: !!python/object:os.system {}\n", "tags aren't taken (line 1)"),
    ],
)
def test_what_cannot_be_used_is_a_config_error(tmp_path: Path, document: object, said: str) -> None:
    """Whatever is wrong with a file is a ConfigError that says what."""
    assert said in refusal(tmp_path, document)


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    """A missing file, a directory and bytes that aren't UTF-8 are named by their path."""
    (tmp_path / "latin").write_bytes(b"a: \xff")
    for path in (tmp_path / "missing.yaml", tmp_path, tmp_path / "latin"):
        with pytest.raises(ConfigError, match=path.name):
            load(path)


def test_an_empty_file_is_no_configuration(tmp_path: Path) -> None:
    """Nothing in the file is the same as no file."""
    assert load(written(tmp_path, ""), LEAST) == load(None, LEAST)


def test_unknown_names_of_a_section_in_the_environment_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable of a section is named, too."""
    monkeypatch.setenv("RANKSTREAM_KAFKA__BOOTSTRAP", "b:1")
    with pytest.raises(ConfigError, match="RANKSTREAM_KAFKA__BOOTSTRAP: no such key"):
        load(None, LEAST)


def test_a_section_in_the_environment_that_is_no_json_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole section may come as JSON; what isn't is named by the section."""
    monkeypatch.setenv("RANKSTREAM_QDRANT", '{"url": "http://elsewhere"}')
    assert load(None, {}).qdrant.url == "http://elsewhere"
    monkeypatch.setenv("RANKSTREAM_QDRANT", "http://elsewhere")
    with pytest.raises(ConfigError, match="RANKSTREAM_QDRANT"):
        load(None, {})


def test_a_language_has_one_name(tmp_path: Path) -> None:
    """In whatever form other programs write it; two forms of one are an error."""
    languages = {"de_AT": "german", "PT-br": "portuguese", "fr": "french"}
    settings = load(written(tmp_path, places(bm25={"languages": languages})))
    assert settings.qdrant.bm25.languages == {"de-at": "german", "pt-br": "portuguese", "fr": "french"}
    with pytest.raises(ConfigError, match=r"qdrant\.bm25\.languages: .*one language"):
        load(written(tmp_path, places(bm25={"languages": {"de_AT": "german", "de-at": "english"}})))


@pytest.mark.parametrize("section", ["embedder", "sparse_encoder", "rerank", "chat"])
def test_the_address_of_a_model_has_a_kind(tmp_path: Path, section: str) -> None:
    """Without one, another model would answer, and nothing would say so; `none` switches a server off."""
    with pytest.raises(ConfigError, match=f"{section}: url needs kind"):
        load(written(tmp_path, {**LEAST, section: {"url": "http://model", "model": "m"}}))
    load(written(tmp_path, {**LEAST, section: {"url": "http://model", "model": "m", "kind": "none"}}))


def test_nothing_changes_after_start() -> None:
    """The settings and their sections are frozen."""
    settings = load(None, LEAST)
    for section, name, value in ((settings, "threads", 2), (settings.limits, "timeout", 2.0)):
        with pytest.raises(ValueError, match="frozen"):
            setattr(section, name, value)


@pytest.mark.parametrize("another", [{"fields": {"text": "body"}}, {"ids": "uuid"}, {"namespaces": "none"}])
@pytest.mark.parametrize("name", ["text", "created_at", "id", "type", "subject"])
def test_fields_of_another_tools_collection_may_have_any_index(
    tmp_path: Path, another: dict[str, object], name: str
) -> None:
    """Only rankstream's own collections have an index of these in any case."""
    own = {name: "keyword"}
    assert load(written(tmp_path, places(indexes=own, **another))).qdrant.indexes == own
    assert f"indexes: {name}: these have an index of their own" in refusal(tmp_path, places(indexes=own))
