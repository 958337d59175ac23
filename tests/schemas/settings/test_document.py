"""The configuration's file: what is hostile or ambiguous is refused in one line, by place, within bounds."""

import math
import resource
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from schemas.settings.document import MAX_BYTES, MAX_DEPTH, read

CANARY = "canary-91b2c3d4"

HOSTILE = {
    "a call": b"a: !!python/object/apply:os.system ['touch executed']",
    "a module": b"a: !!python/module:this",
    "a tag of its own": b"a: !x {b: c}",
    "a plain tag": b"a: !!int 1",
    "an alias": b"a: &a [x]\nb: *a",
    "aliases of aliases": b"".join(
        b"l%d: &l%d [%s]\n" % (n, n, b",".join([b"*l%d" % (n - 1)] * 9) if n else b"x") for n in range(20)
    ),
    "merged aliases": b"a: &a {x: 1}\nb: &b {<<: [*a, *a]}\nc: {<<: [*b, *b]}",
    "an alias of itself": b"a: &a [*a]",
    "10,000 levels of lists": b"a: " + b"[" * 10_000 + b"]" * 10_000,
    "10,000 levels of mappings": b"a: " + b"{a: " * 10_000 + b"}" * 10_000,
    "10,000 levels by indentation": b"".join(b" " * n + b"a:\n" for n in range(600)),
    "50 MB": b"a: " + b"x" * 50_000_000,
    "NUL bytes": b"a: \0\0",
    "not UTF-8": b"a: \xff\xfe",
    "UTF-16": "a: b".encode("utf-16"),
    "two documents": b"a: b\n---\nc: d",
    "a mapping for a key": b"? {a: b}\n: c",
    "a number of 10,000 digits": b"a: " + b"9" * 10_000,
    "a key set twice": b"kafka: {}\nkafka: {}",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_hostile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Each is a ConfigError of one line that begins with the file's path, and nothing is executed."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rankstream.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert not (tmp_path / "executed").exists()


BOMBS = (
    "aliases of aliases",
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in ("50 MB", "a call", "merged aliases", "10,000 levels of lists", "a number of 10,000 digits")
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_what_is_hostile_takes_bounded_memory(tmp_path: Path, name: str) -> None:
    """The command ends with 2 and one line on standard error, in 1 GiB of address space."""
    (tmp_path / "x.yaml").write_bytes(HOSTILE[name])
    limit = 1 << 30
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "query", "x", "--config", "x.yaml"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("configuration: x.yaml: ")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("kafka:\n  group_id: a\n  group_id: b\n", "'group_id' is set twice (line 3)"),
        ("qdrant: {url: x}\nkafka: {}\nqdrant: {}\n", "'qdrant' is set twice (line 3)"),
        ("a: 1\nb: &x 2\nc: *x\n", "aliases aren't taken (line 3)"),
        ("a: !!str b\n", "tags aren't taken (line 1)"),
        ("a:\n  " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, f"nested deeper than {MAX_DEPTH} (line 2)"),
        ("a: " + "x" * MAX_BYTES, f"larger than {MAX_BYTES} bytes"),
        ("a: [\n", "not YAML at line 2"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    """A key that is set twice is named; whatever it is, its line is."""
    path = tmp_path / "x.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {said}"


def test_keys_of_different_mappings_may_be_equal(tmp_path: Path) -> None:
    """Only within one mapping is a name taken once; a value may be what a key is."""
    path = tmp_path / "x.yaml"
    path.write_text("a: {n: 1}\nb: {n: a}\nc: [{n: 1}, {n: 2}]\n")
    assert read(path) == {"a": {"n": 1}, "b": {"n": "a"}, "c": [{"n": 1}, {"n": 2}]}


WORDS = {
    "true": True,
    "True": True,
    "FALSE": False,
    "~": None,
    "Null": None,
    "": None,
    **{word: word for word in ("no", "Yes", "ON", "off", "y", "N", "tRUE", "NuLL", "nulls", "true false")},
    "012": 12,
    "+7": 7,
    "0o14": 12,
    "0xfF": 255,
    **{word: word for word in ("0b11", "1_000", "1:30", "0o8", "-0x1", "0x", "08:15:00")},
    "1e-7": 1e-7,
    "1.": 1.0,
    "-.5E3": -500.0,
    "-.INF": float("-inf"),
    **{
        word: word for word in ("2026-01-31", "2026-13-45", "2026-01-31T08:00:00Z", ".", "e5", "1e", "+.nan", "<<", "=")
    },
}


@pytest.mark.parametrize(("word", "value"), WORDS.items(), ids=map(repr, WORDS))
def test_a_plain_word_is_what_the_core_schema_says(tmp_path: Path, word: str, value: object) -> None:
    """Words that only YAML 1.1 knows as something else are texts; of a key the same holds."""
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {word}\nb: {{'{word}': [\"{word}\", {word}]}}\n")
    found = read(path)
    assert [(type(each), each) for each in (found["a"], found["b"][word][0])] == [(type(value), value), (str, word)]
    assert [(type(each), each) for each in found["b"][word][1:]] == ([(type(value), value)] if word else [])


def test_a_number_that_is_none_is_no_number(tmp_path: Path) -> None:
    """NaN, too, is read as a float."""
    (tmp_path / "x.yaml").write_text("a: .NaN")
    assert math.isnan(read(tmp_path / "x.yaml")["a"])


@pytest.mark.parametrize(
    "broken", ["a: [{}", "{}: {{{{", "a: '{}\n", "a: {}\n\tb: c", "{0}: 1\n{0} : [", "a: &{0} 1\nb: *{0}"]
)
def test_no_value_is_repeated(tmp_path: Path, broken: str) -> None:
    """No error about a file holds what stands in it, nor does its traceback."""
    path = tmp_path / "x.yaml"
    path.write_text(broken.format(CANARY))
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
