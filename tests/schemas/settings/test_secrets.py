"""Secrets: given by the environment or by a file, and never seen again."""

import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.cli.config import yaml_lines
from schemas.errors import ConfigError
from schemas.settings import EmbedderSettings, Settings, load
from schemas.settings.reading import effective

CANARY = "sk-canary-5e1f0c8e2b46"
SECTIONS = ("qdrant", "embedder", "sparse_encoder", "rerank")
# Models that are switched off may have keys.
LEAST = {"qdrant": {"url": "http://qdrant:6333"}, **{name: {"kind": "none"} for name in SECTIONS[1:]}}


def with_secrets(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with a key in every section that takes one."""
    for section in SECTIONS:
        monkeypatch.setenv(f"RANKSTREAM_{section.upper()}__API_KEY", CANARY)
    monkeypatch.setenv("RANKSTREAM_CURSOR__SIGNING_SECRET", CANARY)
    return load(None, LEAST)


def test_a_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each backend's section has its key."""
    settings = with_secrets(monkeypatch)
    assert [getattr(settings, section).secret("api_key") for section in SECTIONS] == [CANARY] * len(SECTIONS)
    assert load(None, LEAST).embedder.secret("api_key") == CANARY
    monkeypatch.delenv("RANKSTREAM_EMBEDDER__API_KEY")
    assert load(None, LEAST).embedder.secret("api_key") is None


def test_a_key_comes_from_a_file(tmp_path: Path) -> None:
    """The file is read at use, without the white space around the key; one that can't be read is an OSError."""
    path = tmp_path / "key"
    section = EmbedderSettings(kind="none", api_key_file=path)
    with pytest.raises(OSError, match="No such file"):
        section.secret("api_key")
    path.write_text(f"  {CANARY}\n", encoding="utf-8")
    assert section.secret("api_key") == CANARY


@pytest.mark.parametrize("section", SECTIONS)
def test_a_key_in_the_file_is_refused(tmp_path: Path, section: str) -> None:
    """A key's place in the YAML is named, as is a section that there is none of; neither key is repeated."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(f"{section}:\n  api_key: {CANARY}\nother:\n  deeper:\n    api_key: {CANARY}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert f"{section}.api_key" in message
    assert "other: no such key" in message
    assert "come from the environment" in message
    assert CANARY not in message


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda settings: f"{settings.qdrant!r} {settings.embedder} {settings.rerank!s}",
        lambda settings: settings.model_dump_json(),
        lambda settings: str(settings.model_dump()),
        lambda settings: str(list(settings)),
        lambda settings: settings.config_hash(),
        lambda settings: str(settings.model_copy(update={"threads": 1})),
        lambda settings: logging.LogRecord("n", 20, "p", 1, "%s", (settings,), None).getMessage(),
    ],
)
def test_settings_can_be_shown(monkeypatch: pytest.MonkeyPatch, show: Any) -> None:
    """No way to print, log or dump the settings holds a key."""
    settings = with_secrets(monkeypatch)
    assert CANARY in pickle.dumps(settings).decode("latin-1"), "the canary is there to be found"
    assert CANARY not in show(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("RANKSTREAM_QDRANT", f'{{"api_key": "{CANARY}"', id="a section that is no JSON"),
        pytest.param("RANKSTREAM_QDRANT", f'"{CANARY}"', id="a section that is a string"),
        pytest.param("RANKSTREAM_QDRANT__API_KEY", f'["{CANARY}"]', id="a key that is a list"),
        pytest.param("RANKSTREAM_QDRANT__APIKEY", CANARY, id="a misspelt key"),
        pytest.param("RANKSTREAM_QDRANT__API_KEY__X", CANARY, id="a key that is a section"),
        pytest.param("RANKSTREAM_QDRANT__DIMENSION", CANARY, id="a key in the wrong place"),
        pytest.param("RANKSTREAM_EMBEDDER__URL", CANARY, id="a key for a URL"),
        pytest.param("RANKSTREAM_RERANK__KIND", CANARY, id="a key for a choice"),
        pytest.param("RANKSTREAM_KAFKA__TOPICS", CANARY, id="a key for a nested section"),
    ],
)
def test_no_error_repeats_a_value(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Whatever is wrong around a key, neither the message nor the traceback that is logged holds it."""
    monkeypatch.setenv(name, value)
    try:
        shown = str(load(None, LEAST))
    except ConfigError as error:
        shown = "".join(traceback.format_exception(error))
    assert CANARY not in shown


def test_no_yaml_error_repeats_a_value(tmp_path: Path) -> None:
    """A file that isn't YAML is named by line, without the line, in the traceback too."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(f"qdrant:\n  url: http://q\n api_key: {CANARY}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not YAML at line 3") as caught:
        load(path)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


URLS = {
    "qdrant.url": {},
    "embedder.url": {"kind": "tei"},
    "rerank.url": {"kind": "tei"},
    "sparse_encoder.url": {"kind": "none"},
    "chat.url": {"kind": "openai", "model": "m"},
    "kafka.sasl.token_url": {"mechanism": "OAUTHBEARER", "client_id": "c", "client_secret_file": "f"},
}
"""Each URL, with what its section needs beside it."""


def configured(path: str, value: str) -> dict[str, Any]:
    """The settings with this value at this path."""
    *sections, name = path.split(".")
    found: dict[str, Any] = {**URLS.get(path, {}), name: value}
    for section in reversed(sections):
        found = {section: found}
    if path.startswith("kafka.sasl"):
        found["kafka"]["security_protocol"] = "SASL_PLAINTEXT"
    return {**LEAST, **found}


@pytest.mark.parametrize("path", URLS)
@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{CANARY}@host:1/v1",
        f"https://{CANARY}@host",
        f"http://host/v1#{CANARY}",
        f"http://user:{CANARY}\\@host",
        f"http://host?k={CANARY}",
        f"http://host/v1?api_key={CANARY}",
    ],
)
def test_a_url_carries_no_secret(path: str, url: str) -> None:
    """Keys have settings of their own: a user, a password, a query and a fragment are refused, and not repeated.

    The query of an issuer of tokens is a part of its address.
    """
    if path.endswith("token_url") and "?" in url:
        assert load(None, configured(path, url)).kafka.sasl.token_url == url
        return
    with pytest.raises(ConfigError, match=f"{path}: a URL http.* is expected, without user") as caught:
        load(None, configured(path, url))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("path", URLS)
@pytest.mark.parametrize("url", ["http://host", "https://[::1]:443/v1/", "http://host:1/a@b/c"])
def test_a_url_without_a_secret_is_taken(path: str, url: str) -> None:
    """Host, port and path, in which an @ is a letter like others."""
    load(None, configured(path, url))


def test_the_query_of_an_issuer_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `config`, as a comment, since it is not the configuration any more."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(yaml.safe_dump(configured("kafka.sasl.token_url", f"https://host/t?p={CANARY}")))
    printed = list(yaml_lines(effective(path)))
    assert CANARY not in str(printed)
    assert '    # token_url: "https://host/t?***"  # file' in printed


def test_a_byte_order_mark_is_no_part_of_a_secret(tmp_path: Path) -> None:
    """Editors of Windows begin a file with one."""
    path = tmp_path / "key"
    path.write_bytes(b"\xef\xbb\xbfcanary\r\n")
    assert EmbedderSettings(kind="none", api_key_file=path).secret("api_key") == "canary"


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ({"qdrant": {"url": "http://q", "api_key_file": "~/s"}}, "qdrant"),
        ({"qdrant": {"url": "http://q"}, "cursor": {"signing_secret_file": "~/s"}}, "cursor"),
        ({"qdrant": {"url": "http://q"}, "chat": {"kind": "none", "api_key_file": "~/s"}}, "chat"),
    ],
)
def test_a_secrets_file_may_be_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: dict[str, Any], name: str
) -> None:
    """The tilde of its path is expanded, as that of other paths."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "s").write_text(f"{CANARY}\n")
    key = "signing_secret" if name == "cursor" else "api_key"
    assert getattr(load(None, section), name).secret(key) == CANARY
