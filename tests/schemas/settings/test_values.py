"""The values of settings: a number is no boolean and finite, and a boolean may be written in the words of YAML 1.1."""

from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.settings import Settings, load

LEAST: dict[str, Any] = {"qdrant": {"url": "http://q"}}


def read(directory: Path, text: str) -> Settings:
    """The settings of a file with this text."""
    path = directory / "c.yaml"
    path.write_text(text if "qdrant:" in text else f"qdrant: {{url: http://q}}\n{text}")
    return load(path)


@pytest.mark.parametrize("word", ["off", "no", "yes", "1:30", "0b11"])
def test_a_word_is_no_number(tmp_path: Path, word: str) -> None:
    """A word that YAML 1.1 reads as a number, or as a boolean in place of one, is refused."""
    for document in (f"telemetry: {{port: {word}}}", f"delivery: {{drain_timeout: {word}}}"):
        with pytest.raises(ConfigError, match="Input should be a valid"):
            read(tmp_path, document)


@pytest.mark.parametrize("word", [".inf", "-.inf", ".nan", "1e400"])
@pytest.mark.parametrize(
    "document",
    [
        "qdrant: {{url: http://q, bm25: {{avg_len: {}}}}}",
        "qdrant: {{url: http://q, bm25: {{k: {}}}}}",
        "limits: {{overrides: {{score.alpha: {{max: {}}}}}}}",
        "kafka: {{options: {{a: {}}}}}",
    ],
)
def test_a_number_is_finite(tmp_path: Path, document: str, word: str) -> None:
    """Neither a bound nor a factor is infinite."""
    with pytest.raises(ConfigError, match="Input should be a finite number"):
        read(tmp_path, document.format(word))


@pytest.mark.parametrize(
    ("word", "value"), [("yes", True), ("On", True), ("no", False), ("OFF", False), ("True", True)]
)
def test_a_boolean_may_be_yes_or_no(tmp_path: Path, word: str, value: bool) -> None:
    """A setting that is a boolean reads these words, and so do options of the Kafka client."""
    settings = read(tmp_path, f"firewall: {{enabled: {word}}}\nkafka: {{options: {{socket.keepalive.enable: {word}}}}}")
    assert settings.firewall.enabled is value
    assert settings.kafka.options == {"socket.keepalive.enable": value}


def test_a_word_among_values_is_that_word(tmp_path: Path) -> None:
    """A filter of a policy finds the language no, and the day that was written."""
    filters = "[{field: lang, op: any_of, value: [no, en]}, {field: day, op: eq, value: 2026-01-31}]"
    found = read(tmp_path, f"policies: {{default: {{filters: {filters}}}}}").policies.default.filters
    assert [each.model_dump()["value"] for each in found] == [["no", "en"], "2026-01-31"]
