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
    missing = "qdrant: missing: set qdrant.url to the address of a server, or qdrant.path to a directory"
    assert refusal(tmp_path, {}) == missing


def test_the_environment_goes_over_the_file_and_the_file_over_the_overrides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three values for one path the environment's counts, then the file's; untouched ones of a section stay."""
    under = {**LEAST, "limits": {"timeout": 1, "max_timeout": 2, "max_text_chars": 3}}
    path = written(tmp_path, {"limits": {"timeout": 10, "max_timeout": 20}})
    monkeypatch.setenv("RANKSTREAM_LIMITS__TIMEOUT", "15")
    limits = load(path, under).limits
    assert (limits.timeout, limits.max_timeout, limits.max_text_chars) == (15, 20, 3)


def test_an_index_is_taken_where_none_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, or a variable, that says anything of Qdrant says all of it."""
    recipes = written(tmp_path, {"recipes": {"mine": {"stages": [{"vector": {}}]}}})
    assert load(recipes, index=tmp_path).qdrant.path == tmp_path
    assert load(written(tmp_path, LEAST), index=tmp_path).qdrant.path is None
    monkeypatch.setenv("RANKSTREAM_QDRANT__URL", "http://other:6333")
    recipes = written(tmp_path, {"limits": {"timeout": 1}})
    assert load(recipes, index=tmp_path).qdrant.path is None


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    """A missing file, a directory and bytes that aren't UTF-8 are named by their path."""
    (tmp_path / "latin").write_bytes(b"a: \xff")
    for path in (tmp_path / "missing.yaml", tmp_path, tmp_path / "latin"):
        with pytest.raises(ConfigError, match=path.name):
            load(path)


def test_an_empty_file_is_no_configuration(tmp_path: Path) -> None:
    """Nothing in the file is the same as no file."""
    assert load(written(tmp_path, ""), LEAST) == load(None, LEAST)


def test_a_section_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole section may come as JSON."""
    monkeypatch.setenv("RANKSTREAM_QDRANT", '{"url": "http://elsewhere"}')
    assert load(None, {}).qdrant.url == "http://elsewhere"


def test_a_language_has_one_name(tmp_path: Path) -> None:
    """In whatever form other programs write it."""
    languages = {"de_AT": "german", "PT-br": "portuguese", "fr": "french"}
    settings = load(written(tmp_path, places(bm25={"languages": languages})))
    assert settings.qdrant.bm25.languages == {"de-at": "german", "pt-br": "portuguese", "fr": "french"}


@pytest.mark.parametrize("section", ["embedder", "sparse_encoder", "rerank", "chat"])
def test_a_model_that_is_switched_off_may_have_an_address(tmp_path: Path, section: str) -> None:
    """By the kind `none`, which keeps the other keys for later, whatever they are."""
    load(written(tmp_path, {**LEAST, section: {"url": "http://model", "model": "m", "kind": "none", "timeout": 9}}))


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
