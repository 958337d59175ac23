"""The message about a wrong configuration: the key or the variable, and what is expected, all at once."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import ConfigError
from schemas.settings import load

LEAST: dict[str, Any] = {"qdrant": {"url": "http://q"}}


def said(directory: Path, document: object) -> list[str]:
    """The lines of the refusal."""
    (directory / "c.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError) as caught:
        load(directory / "c.yaml")
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({**LEAST, "cach": {}}, "cach: no such key; did you mean cache?"),
        (
            {**LEAST, "kafka": {"bootstrap_server": "b:1"}},
            "kafka.bootstrap_server: no such key; did you mean bootstrap_servers?",
        ),
        ({**LEAST, "kafka": {"topics": {"query": "a"}}}, "kafka.topics.query: no such key; did you mean queries?"),
        (
            {**LEAST, "profiles": {"mine": {"over_sampl": 3}}},
            "profiles.mine.over_sampl: no such key; did you mean over_sample?",
        ),
        (
            {**LEAST, "cursor": {"zzz": 1}},
            "cursor.zzz: no such key; there are signing_secret, signing_secret_file",
        ),
        ({}, "qdrant: missing: set qdrant.url to the address of a server, or qdrant.path to a directory"),
        ({"qdrant": {}}, "qdrant: set one of url and path"),
        ({**LEAST, "kafka": {"client": "c"}}, "kafka.client: Input should be 'librdkafka' or 'kafka-python'"),
        (
            {**LEAST, "kafka": {"partitions": "many"}},
            "kafka.partitions: Input should be a valid integer, unable to parse string as an integer",
        ),
        ({**LEAST, "kafka": None}, "kafka: a mapping is expected"),
        ({**LEAST, "limits": {"timeout": -1}}, "limits.timeout: Input should be greater than 0"),
        (
            {**LEAST, "delivery": {"max_in_flight": 5000}},
            "delivery.max_in_flight: Input should be less than or equal to 1024",
        ),
        (
            {**LEAST, "rerank": {"on_the_fly": "perhaps"}},
            "rerank.on_the_fly: Input should be a valid boolean, unable to interpret input",
        ),
    ],
)
def test_a_problem_is_one_line_in_plain_words(tmp_path: Path, document: object, line: str) -> None:
    """It names the path, and what is expected there."""
    assert said(tmp_path, document) == [line]


def test_each_problem_of_a_recipe_is_a_line_with_its_path(tmp_path: Path) -> None:
    """Misspelt keys and legs are named, stages by their place, in every recipe at once."""
    recipes = {
        "mine": {"stages": ["rff", {"dedupe": {"limits": 3}}, 7], "max_distence": 1},
        "legs": {"stages": [{"score": {"weights": {"vectr": 2, "keywrod": 1}}}]},
        2024: {"stages": ["rrf"]},
    }
    assert {*said(tmp_path, {**LEAST, "recipes": recipes})} == {
        "recipes.2024: a text is expected as name",
        "recipes.legs.score.weights.keywrod: no such leg; did you mean keyword?",
        "recipes.legs.score.weights.vectr: no such leg; did you mean vector?",
        "recipes.mine.max_distence: no such key; did you mean max_distance?",
        "recipes.mine.stages.0: no such stage; did you mean rrf?",
        "recipes.mine.stages.2: a stage is its name, or its name with its parameters",
        "recipes.mine.dedupe.limits: no such key; did you mean limit?",
    }


@pytest.mark.parametrize("fusion", ["rrf", "score", "dbsf"])
def test_a_leg_has_a_weight(tmp_path: Path, fusion: str) -> None:
    """Weights of 0 for all legs rank nothing; one leg, and one of recorded pools, may have all the weight."""

    def recipe(**parameters: object) -> dict[str, object]:
        return {**LEAST, "recipes": {"mine": {"stages": [{fusion: parameters}]}}}

    assert said(tmp_path, recipe(weights={"vector": 0, "keyword": 0, "learned": 0})) == [
        f"recipes.mine.{fusion}.weights: no leg has a weight above 0"
    ]
    for weights in ({}, {"vector": 0}, {"vector": 0, "keyword": 0, "of_a_pool": 1}):
        load(None, recipe(weights=weights))
    load(None, recipe(weights={"vector": 0, "keyword": 0}, fuzzy=1.0))


def test_every_problem_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the file, a variable that is none, a wrong value and an unknown key are four lines."""
    monkeypatch.setenv("RANKSTREAM_KAFFKA__CLIENT", "kafka-python")
    document = {"qdrant": {"url": "http://q", "api_key": "canary"}, "kafka": {"client": "c"}, "cach": {}}
    lines = said(tmp_path, document)
    assert [line.split(":")[0] for line in lines] == [
        "qdrant.api_key",
        "RANKSTREAM_KAFFKA__CLIENT",
        "kafka.client",
        "cach",
    ]
    assert "did you mean RANKSTREAM_KAFKA?" in lines[1]
    assert "canary" not in "".join(lines)


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        (
            "RANKSTREAM_KAFKA__BOOTSTRAP",
            "b",
            "RANKSTREAM_KAFKA__BOOTSTRAP: no such key; did you mean bootstrap_servers?",
        ),
        (
            "RANKSTREAM_KAFKA__PARTITIONS",
            "x",
            "RANKSTREAM_KAFKA__PARTITIONS: Input should be a valid integer, unable to parse string as an integer",
        ),
        (
            "RANKSTREAM_KAFKA__TOPICS__REPLY_TO",
            "a,b",
            'RANKSTREAM_KAFKA__TOPICS__REPLY_TO: JSON is expected, such as ["a", "b"]',
        ),
        (
            "RANKSTREAM_FIREWALL__BLOCKED_LABELS",
            "draft",
            'RANKSTREAM_FIREWALL__BLOCKED_LABELS: JSON is expected, such as ["a", "b"]',
        ),
        ("RANKSTREAM_COLOUR", "blue", "RANKSTREAM_COLOUR: no such setting"),
        (
            "RANKSTREAM_KAFKA",
            "b:1",
            "RANKSTREAM_KAFKA: a section is set by a JSON object, or its keys one by one: RANKSTREAM_KAFKA__...",
        ),
    ],
)
def test_a_variable_is_named_as_it_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, line: str
) -> None:
    """A value from the environment is told from one in the file."""
    monkeypatch.setenv(variable, value)
    assert said(tmp_path, LEAST) == [line]


@pytest.mark.parametrize(
    "variable",
    [
        "RANKSTREAM_SERVICE_HOST",
        "RANKSTREAM_SERVICE_PORT_HEALTH",
        "RANKSTREAM_PORT",
        "RANKSTREAM_PORT_8080_TCP",
        "RANKSTREAM_PORT_8080_TCP_ADDR",
        "RANKSTREAM_SEARCH_SERVICE_PORT",
        "RANKSTREAM_SEARCH_PORT_8080_TCP_PROTO",
    ],
)
def test_what_kubernetes_sets_for_a_service_is_no_setting(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """A Service called rankstream, or rankstream-search, doesn't keep its pods from starting."""
    monkeypatch.setenv(variable, "tcp://10.0.0.1:8080")
    assert load(None, LEAST).telemetry.port == 8080
