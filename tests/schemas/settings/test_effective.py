"""The effective configuration: values, and where each came from."""

from pathlib import Path

import pytest
import yaml

from flows.cli.config import yaml_lines
from schemas.errors import ConfigError
from schemas.settings import load
from schemas.settings.reading import EffectiveValue, effective


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file, over which the environment sets a number and a secret."""
    path = tmp_path / "c.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "qdrant": {"url": "http://q", "destinations": {"notes": "no"}},
                "kafka": {"partitions": 3},
                "recipes": {"mine": {"stages": ["rrf"]}},
            }
        )
    )
    monkeypatch.setenv("RANKSTREAM_KAFKA__PARTITIONS", "7")
    monkeypatch.setenv("RANKSTREAM_QDRANT__API_KEY", "canary")
    return path


def test_each_value_says_where_it_came_from(file: Path) -> None:
    """The environment goes over the file, the file over the default, and a secret is masked."""
    found = {".".join(map(str, path)): (value, source) for path, value, source, _ in effective(file)}
    assert found["kafka.partitions"] == (7, "RANKSTREAM_KAFKA__PARTITIONS")
    assert found["qdrant.url"] == ("http://q", "file")
    assert found["qdrant.destinations.notes"] == ("no", "file")
    assert found["kafka.client"] == ("librdkafka", "default")
    assert found["qdrant.api_key"] == ("***", "RANKSTREAM_QDRANT__API_KEY")
    assert found["recipes.mine.stages"][1] == "file"
    assert found["recipes.hybrid.stages"][1] == "default"


def test_what_is_printed_is_the_same_configuration(file: Path, tmp_path: Path) -> None:
    """It is YAML that loads to equal settings, and holds no secret."""
    printed = list(yaml_lines(effective(file)))
    again = tmp_path / "again.yaml"
    again.write_text("\n".join(printed))
    assert "canary" not in again.read_text()
    assert load(again) == load(file)


@pytest.mark.parametrize(
    "document",
    [
        "recipes: {mine: {stages: [{score: {fuzzy: 1e-7}}]}}",
        "qdrant: {url: http://q, bm25: {k: 1e-12, avg_len: 3e+9}, search_fields: {text: 1e-05}}",
        "documents: {expire_after: {no: 1e9, '012': 5, '': 2, 'a.b: c#': 1e-9, 'true': 4}}",
        "policies: {default: {filters: [{any_of: [{field: a, op: any_of, value: [no, 012, 'true', '0o7']}]}]}}",
        "policies: {default: {filters: [{none_of: [{all_of: [{field: a, op: exists, value: true}]}]}]}}",
        "policies: {default: {filters: [{field: a, op: nested, value: [{all_of: [{field: b, op: eq, value: 1}]}]}]}}",
        "policies: {sources: {no: {filters: [{field: a, op: date_range, value: {gt: 2026-01-01T00:00:00Z}}]}}}",
        "embedder: {query_prefix: 'a\u2028\u0085\t é 😀', body: {}, kind: tei, url: http://e}\nrerank: {kind: none}",
        "kafka: {options: {a.b: yes, c: 1e-5, d: 'off', e: 1e5, f: 2026-01-01}}",
    ],
)
def test_any_value_that_is_printed_reads_back_the_same(tmp_path: Path, document: str) -> None:
    """Small and large numbers, words that YAML 1.1 reads as something else, and filters in groups."""
    file, again = tmp_path / "c.yaml", tmp_path / "again.yaml"
    file.write_text(document if "qdrant" in document else f"qdrant: {{url: http://q}}\n{document}")
    again.write_text("\n".join(yaml_lines(effective(file))))
    assert load(again) == load(file)


def test_strings_that_yaml_reads_as_something_else_are_quoted() -> None:
    """A collection may be called no, or 1."""
    values = [EffectiveValue(("a", name), name, "default", False) for name in ("no", "1", "null", "x: y", "plain")]
    assert yaml.safe_load("\n".join(yaml_lines(values))) == {
        "a": {name: name for name in ("no", "1", "null", "x: y", "plain")}
    }


def test_what_a_server_gets_may_hold_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in a body or in extensions is refused in the file, and masked where a variable has it."""
    file = tmp_path / "c.yaml"
    embedder = {"kind": "openai", "url": "http://e", "model": "m"}
    base = {"qdrant": {"url": "http://q"}, "rerank": {"kind": "none"}, "embedder": embedder}
    file.write_text(yaml.safe_dump({**base, "embedder": {**embedder, "body": {"deep": {"api_key": "canary"}}}}))
    with pytest.raises(
        ConfigError, match=r"embedder\.body\.deep\.api_key: secrets come from the environment"
    ) as refused:
        load(file)
    assert "canary" not in str(refused.value)
    file.write_text(yaml.safe_dump(base))
    monkeypatch.setenv("RANKSTREAM_EMBEDDER__BODY", '{"api_key": "canary", "dimensions": 3}')
    printed = "\n".join(yaml_lines(effective(file)))
    assert "canary" not in printed
    assert "dimensions: 3" in printed


def test_parameters_of_a_chat_model_may_hold_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key among them is refused in the file, and masked where a variable has it, as in a body."""
    file = tmp_path / "c.yaml"
    chat = {"kind": "openai", "url": "http://c", "model": "m"}
    file.write_text(
        yaml.safe_dump({"qdrant": {"url": "http://q"}, "chat": {**chat, "parameters": {"api_key": "canary"}}})
    )
    with pytest.raises(ConfigError, match=r"chat\.parameters\.api_key: secrets come from the environment"):
        load(file)
    file.write_text(yaml.safe_dump({"qdrant": {"url": "http://q"}, "chat": chat}))
    monkeypatch.setenv("RANKSTREAM_CHAT__PARAMETERS", '{"api_key": "canary", "top_p": 0.5}')
    printed = "\n".join(yaml_lines(effective(file)))
    assert "canary" not in printed
    assert "top_p: 0.5" in printed


def test_names_that_users_choose_are_no_secrets(tmp_path: Path) -> None:
    """A field, a source, a profile or a destination may be called like a secret, or like headers of a backend."""
    file = tmp_path / "c.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "qdrant": {"url": "http://q", "indexes": {"token": "keyword"}, "destinations": {"password": "p"}},
                "policies": {"sources": {"api_key": {"read": True}}},
                "profiles": {"query": {"recipe": "rrf"}, "headers": {"recipe": "rrf"}},
                "chat": {"kind": "none", "query": {"api-version": "canary"}},
            }
        )
    )
    printed = "\n".join(yaml_lines(effective(file)))
    assert "canary" not in printed
    assert printed.count("***") == 1
    (tmp_path / "again.yaml").write_text(printed)
    assert load(tmp_path / "again.yaml").profiles == load(file).profiles
