"""The variables of the environment: null, JSON that is none, maps that are merged, and the origin of each value."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import ConfigError
from schemas.settings import Settings, load
from schemas.settings.reading import effective

LEAST: dict[str, Any] = {"qdrant": {"url": "http://q"}}


def set_variables(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Set the variables with these names behind the prefix."""
    for name, value in values.items():
        monkeypatch.setenv(f"RANKSTREAM_{name}", value)


def at(settings: Settings, path: str) -> object:
    """The value at a path."""
    found: Any = settings
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(
    "path",
    [
        *("qdrant.vectors.sparse", "qdrant.vectors.tokens", "qdrant.context.order_by", "qdrant.tls.ca", "threads"),
        *("qdrant.api_key_file", "qdrant.search.hnsw_ef", "kafka.compression", "kafka.rack", "telemetry.port"),
        *("telemetry.log_format", "policies.default.clearance", "limits.overrides"),
    ],
)
def test_null_in_a_variable_is_null(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Of a name, a path, a number or a map: the word is no text, and it goes over the file."""
    own = {"threads": 4, "telemetry": {"port": 9, "log_format": "json"}, "kafka": {"rack": "a"}}
    set_variables(monkeypatch, **{path.upper().replace(".", "__"): "null"})
    assert at(load(None, {**LEAST, **own}), path) is None


@pytest.mark.parametrize(
    ("variable", "value", "example"),
    [
        ("QDRANT__DESTINATIONS", "default:documents", '{"a": "b"}'),
        ("DOCUMENTS__EXPIRE_AFTER", "acme=5", '{"a": "b"}'),
        ("RECIPES", "mine", '{"a": "b"}'),
        ("PROFILES", "mine", '{"a": "b"}'),
        ("EMBEDDER__BODY", "{a: 1}", '{"a": "b"}'),
        ("KAFKA__TOPICS__REPLY_TO", "a,b", '["a", "b"]'),
        ("POLICIES__DEFAULT__NAMESPACES", "acme", '["a", "b"]'),
    ],
)
def test_a_variable_that_is_no_json_hides_no_other_problem(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, example: str
) -> None:
    """It is told with an example of its kind, beside another such one, an unknown one and a wrong value."""
    set_variables(
        monkeypatch, **{variable: value, "KAFKA__PARTITIONS": "x", "FOO": "1", "FIREWALL__BLOCKED_LABELS": "-"}
    )
    with pytest.raises(ConfigError) as caught:
        load(None, LEAST)
    assert {*str(caught.value).splitlines()} == {
        f"RANKSTREAM_{variable}: JSON is expected, such as {example}",
        'RANKSTREAM_FIREWALL__BLOCKED_LABELS: JSON is expected, such as ["a", "b"]',
        "RANKSTREAM_FOO: no such setting",
        "RANKSTREAM_KAFKA__PARTITIONS: Input should be a valid integer, unable to parse string as an integer",
    }


def test_maps_are_merged_and_each_value_has_its_own_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable sets what its JSON holds: the file's other names and the defaults stay, with their origin."""
    file = tmp_path / "c.yaml"
    destinations = {"default": "documents", "both": "file"}
    file.write_text(
        yaml.safe_dump(
            {
                "qdrant": {"url": "http://q", "timeout": 3, "destinations": destinations, "max_batch": 9},
                "recipes": {"of_the_file": {"stages": ["rrf"]}},
            }
        )
    )
    set_variables(
        monkeypatch,
        QDRANT='{"max_batch": 5, "bm25": {"k": 1.0}}',
        QDRANT__DESTINATIONS='{"both": "variable", "more": "m"}',
        RECIPES='{"mine": {"stages": ["rrf"]}}',
    )
    found = {".".join(map(str, each.path)): (each.value, each.source) for each in effective(file)}
    assert {name: found[f"qdrant.{name}"] for name in ("timeout", "max_batch", "bm25.k", "bm25.b", "idf")} == {
        "timeout": (3.0, "file"),
        "max_batch": (5, "RANKSTREAM_QDRANT"),
        "bm25.k": (1.0, "RANKSTREAM_QDRANT"),
        "bm25.b": (0.75, "default"),
        "idf": ("namespace", "default"),
    }
    assert {name: found[f"qdrant.destinations.{name}"] for name in ("default", "both", "more")} == {
        "default": ("documents", "file"),
        "both": ("variable", "RANKSTREAM_QDRANT__DESTINATIONS"),
        "more": ("m", "RANKSTREAM_QDRANT__DESTINATIONS"),
    }
    assert [found[f"recipes.{name}.stages"][1] for name in ("mine", "of_the_file", "hybrid")] == [
        "RANKSTREAM_RECIPES",
        "file",
        "default",
    ]
