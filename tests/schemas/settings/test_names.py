"""Names in the configuration that stand for nothing, and values that no server takes: each is refused, by its path."""

from pathlib import Path

import pytest
import qdrant_edge

from schemas.errors import ConfigError
from schemas.settings import Settings, load
from schemas.settings.qdrant import LANGUAGES


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


@pytest.mark.parametrize(
    ("bm25", "said"),
    [
        ("bm25: {language: germn}", "qdrant.bm25.language: no such language; did you mean german?"),
        ("bm25: {language: English}", "qdrant.bm25.language: no such language; did you mean english?"),
        ("bm25: {languages: {de: geman}}", "qdrant.bm25.languages.de: no such language; did you mean german?"),
        (
            "analysers: {documents: {language: porguese}}",
            "qdrant.analysers.documents.language: no such language; did you mean portuguese?",
        ),
        ("bm25: {language: klingon}", "qdrant.bm25.language: no such language; there are arabic, azerbaijani, "),
    ],
)
def test_a_language_that_the_engine_does_not_know_is_refused(tmp_path: Path, bm25: str, said: str) -> None:
    """By its path, with the one that was likely meant, or else all."""
    assert refusal(tmp_path, f"qdrant: {{url: http://q, {bm25}}}").startswith(said)


def test_a_language_may_be_none(tmp_path: Path) -> None:
    """Without stems and stop words, beside others that have them."""
    bm25 = read(
        tmp_path, "qdrant: {url: http://q, bm25: {language: none, languages: {no: norwegian, x: none}}}"
    ).qdrant.bm25
    assert (bm25.language, bm25.languages) == ("none", {"no": "norwegian", "x": "none"})


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ("sparse: dense", "sparse: dense: another"),
        ("tokens: bm25", "tokens: bm25: another"),
        ("dense_context: dense", "dense_context: dense: another"),
        ("sparse_context: dense_context", "sparse_context: dense_context: another"),
        ("fuzzy: bm25_context", "fuzzy: bm25_context: another"),
        ("learned: tokens", "learned: tokens: another"),
        ("dense: ''", None),
        ("sparse: ''", "sparse: only a dense vector may have no name"),
        ("tokens: ''", "tokens: only a dense vector may have no name"),
    ],
)
def test_each_vector_has_a_name_of_its_own(tmp_path: Path, vectors: str, said: str | None) -> None:
    """Two of one name would be one vector; only the dense one may have none."""
    text = f"qdrant: {{url: http://q, vectors: {{{vectors}}}}}\nrerank: {{kind: none}}"
    if said is None:
        assert read(tmp_path, text).qdrant.vectors.dense == ""
    else:
        assert f"qdrant.vectors: {said}" in refusal(tmp_path, text)


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


def test_a_name_of_a_parameter_is_a_text(tmp_path: Path) -> None:
    """A number for a name is refused with its path."""
    said = refusal(tmp_path, f"chat: {MODELS['chat'].format('parameters: {logit_bias: {50256: -100}}')}")
    assert said.startswith("chat.parameters.logit_bias")


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
    """A name that is written must be one of qdrant.destinations; events may always name theirs."""
    assert refusal(tmp_path, "defaults: {destination: elswhere}").endswith(
        "defaults.destination: not in qdrant.destinations"
    )
    named = "qdrant: {url: http://q, destinations: {notes: n}}"
    assert read(tmp_path, f"{named}\ndefaults: {{destination: notes}}").defaults.destination == "notes"
    assert read(tmp_path, named).defaults.destination == "default"


PARTS = "qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}\n"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (
            "default: {deny: {collections: [secrt, open]}}",
            "policies.default.deny.collections: secrt: not in qdrant.collections",
        ),
        ("default: {collections: [secret, a, b]}", "policies.default.collections: a, b: not in qdrant.collections"),
        ("sources: {web: {collections: [s]}}", "policies.sources.web.collections: s: not in qdrant.collections"),
        (
            "default: {deny: {operations: [Read]}}",
            "policies.default.deny.operations: Read: no operation; there is read",
        ),
        ("default: {operations: [query]}", "policies.default.operations: query: no operation; there is read"),
        (
            "sources: {web: {deny: {operations: [read, write]}}}",
            "policies.sources.web.deny.operations: write: no operation; there is read",
        ),
    ],
)
def test_a_policy_names_what_there_is(tmp_path: Path, policy: str, said: str) -> None:
    """A misspelt collection or operation would allow what was to be denied."""
    assert refusal(tmp_path, f"{PARTS}policies: {{{policy}}}").endswith(said)
    read(tmp_path, f"{PARTS}policies: {{default: {{collections: [open], deny: {{operations: [read]}}}}}}")
