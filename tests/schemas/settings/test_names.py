"""Names in the configuration that stand for nothing, and values that no server takes: each is refused, by its path."""

from pathlib import Path

import pytest
import qdrant_edge

from schemas.errors import ConfigError
from schemas.settings import Settings, load
from schemas.settings.qdrant import LANGUAGES, Bm25Settings


def read(directory: Path, text: str) -> Settings:
    """The settings of a file with this text."""
    path = directory / "c.yaml"
    path.write_text(text if "qdrant:" in text else f"qdrant: {{url: http://q}}\n{text}")
    return load(path)


def refusal(directory: Path, text: str) -> str:
    """The message about a file with this text."""
    with pytest.raises(ConfigError) as caught:
        read(directory, text)
    return str(caught.value)


def test_the_languages_are_the_engines() -> None:
    """Each is known to the engine, and each that the engine names is one of them."""

    def knows(language: str) -> bool:
        try:
            qdrant_edge.Bm25(qdrant_edge.Bm25Config(language=language))
        except ValueError:
            return False
        return True

    named = {name.lower() for name in dir(qdrant_edge.Language) if not name.startswith("_")}
    codes = {one + other for one in "abcdefghijklmnopqrstuvwxyz" for other in "abcdefghijklmnopqrstuvwxyz"}
    assert {*LANGUAGES} == {each for each in named | codes if knows(each)}
    assert len({*LANGUAGES}) == len(LANGUAGES)


def test_a_language_may_be_none(tmp_path: Path) -> None:
    """Without stems and stop words, beside others that have them."""
    bm25 = read(
        tmp_path, "qdrant: {url: http://q, bm25: {language: none, languages: {no: norwegian, x: none}}}"
    ).qdrant.bm25
    assert (bm25.language, bm25.languages) == ("none", {"no": "norwegian", "x": "none"})


MODELS = {
    "chat": "{{kind: openai, url: http://c, model: m, {}}}",
    "embedder": "{{kind: openai, url: http://e, model: m, {}}}\nrerank: {{kind: none}}",
    "rerank": "{{kind: cohere, url: http://r, {}}}",
    "sparse_encoder": "{{kind: none, {}}}",
}


@pytest.mark.parametrize("section", MODELS)
@pytest.mark.parametrize("value", ["18446744073709551616", "-9223372036854775809", ".nan", "{deep: [1, .inf]}"])
def test_what_json_cannot_hold_is_no_field_of_a_request(tmp_path: Path, section: str, value: str) -> None:
    """Integers have 64 bits, and numbers are finite."""
    for key in ("body", "parameters")[: 1 + (section == "chat")]:
        said = refusal(tmp_path, f"{section}: {MODELS[section].format(f'{key}: {{seed: {value}}}')}")
        assert said == f"{section}.{key}: the values must be JSON, with finite numbers and integers of 64 bits"


def test_a_dense_vector_may_have_no_name(tmp_path: Path) -> None:
    """As the one of a collection that has no other."""
    text = "qdrant: {url: http://q, vectors: {dense: ''}}\nrerank: {kind: none}"
    assert read(tmp_path, text).qdrant.vectors.dense == ""


def test_a_policy_names_what_there_is(tmp_path: Path) -> None:
    """Collections of qdrant.collections, and operations."""
    parts = "qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}\n"
    read(tmp_path, f"{parts}policies: {{default: {{collections: [open], deny: {{operations: [read]}}}}}}")


@pytest.mark.parametrize(
    "path",
    [
        *("embedder.cache_mib", "sparse_encoder.cache_mib", "rerank.max_doc_chars", "rerank.max_batch_chars"),
        *("rerank.cache", "cache.exact_mib", "cache.semantic_mib", "cache.payload_mib", "embedder.max_concurrency"),
    ],
)
def test_no_number_is_larger_than_it_can_mean(tmp_path: Path, path: str) -> None:
    """Numbers beyond 64 bits, of either sign, are out of bounds."""
    section, key = path.split(".")
    for value in (2**64, -(2**64)):
        assert refusal(tmp_path, f"{section}: {{{key}: {value}}}").startswith(f"{path}: Input should be ")


def test_the_default_destination_is_one(tmp_path: Path) -> None:
    """One of qdrant.destinations where it is written; events may always name theirs."""
    named = "qdrant: {url: http://q, destinations: {notes: n}}"
    assert read(tmp_path, f"{named}\ndefaults: {{destination: notes}}").defaults.destination == "notes"
    assert read(tmp_path, named).defaults.destination == "default"


def test_a_language_may_have_its_own_name() -> None:
    """In any case; it is the one of the English name."""
    for written in ("Deutsch", "deutsch", "German"):
        assert Bm25Settings(language=written).language == "german"
    assert Bm25Settings(languages={"fr": "français"}).languages == {"fr": "french"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("documents: {formats: {a: unix_millis}}", "documents.formats.a: no such format; did you mean unix_ms?"),
        ("documents: {formats: {a: [iso_utc, unx]}}", "documents.formats.a: no such format; did you mean unix?"),
        ("documents: {formats: {a: 5}}", "documents.formats.a: a format is expected, or a list of formats"),
        ("kafka: {options: {b.c: [5]}}", "kafka.options.b.c: a text, a number or a boolean is expected"),
    ],
)
def test_a_value_of_several_forms_has_one_problem(tmp_path: Path, text: str, said: str) -> None:
    """No form that it might have had has a line of its own."""
    assert refusal(tmp_path, text) == said
