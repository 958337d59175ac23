"""TLS and SASL by configuration: what contradicts itself is refused at the start, by its path, without a secret."""

import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.settings import Settings, load

CANARY = "canary-3f7a90c1d2"
LEAST = {"qdrant": {"url": "http://qdrant:6333"}}
USER = {"mechanism": "SCRAM-SHA-512", "username": "u", "password_file": "/p"}
CLIENT = {"mechanism": "OAUTHBEARER", "token_url": "https://i/token", "client_id": "c", "client_secret_file": "/s"}
TOKEN = {"mechanism": "OAUTHBEARER", "token_file": "/t"}
CERTIFICATE = {"certificate_file": "/c", "key_file": "/k"}


def kafka(protocol: str, **sections: Any) -> Settings:
    """The settings with this security."""
    return load(None, {**LEAST, "kafka": {"security_protocol": protocol, **sections}})


@pytest.mark.parametrize(
    ("protocol", "sections"),
    [
        ("PLAINTEXT", {}),
        ("SSL", {}),
        ("SSL", {"tls": {"ca_file": "/ca", "check_hostname": False}}),
        ("SSL", {"tls": {**CERTIFICATE, "key_password_file": "/p"}}),
        ("SASL_PLAINTEXT", {"sasl": USER}),
        ("SASL_SSL", {"sasl": {**USER, "mechanism": "PLAIN"}, "tls": CERTIFICATE}),
        ("SASL_SSL", {"sasl": TOKEN}),
        ("SASL_SSL", {"sasl": {**CLIENT, "scope": "kafka"}}),
    ],
)
def test_what_fits_together_is_taken(protocol: str, sections: dict[str, Any]) -> None:
    """Each protocol is taken with what it needs, and with what it can use."""
    assert kafka(protocol, **sections).kafka.security_protocol == protocol


SECRETS = {
    "tls.key_password": {"security_protocol": "SSL", "tls": CERTIFICATE},
    "sasl.password": {"security_protocol": "SASL_SSL", "sasl": {"mechanism": "PLAIN", "username": "u"}},
    "sasl.client_secret": {"security_protocol": "SASL_SSL", "sasl": {**CLIENT, "client_secret_file": None}},
}


def variable(path: str) -> str:
    """The environment's name of a setting of `kafka`."""
    return f"RANKSTREAM_KAFKA__{path.upper().replace('.', '__')}"


@pytest.fixture(params=SECRETS)
def secret(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Settings]:
    """A secret's path, and settings with the canary there."""
    monkeypatch.setenv(variable(request.param), CANARY)
    return request.param, load(None, {**LEAST, "kafka": SECRETS[request.param]})


def test_secrets_come_from_the_environment(secret: tuple[str, Settings]) -> None:
    """Each has its variable."""
    path, settings = secret
    section, name = path.split(".")
    assert getattr(settings.kafka, section).secret(name) == CANARY


@pytest.mark.parametrize("value", ["12345", "true", "null", '{"a": 1', "[x", '"quoted"', "päss wörd", "a=b,c"])
def test_a_password_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A password that looks like a number or like JSON is one like any other."""
    monkeypatch.setenv(variable("sasl.password"), value)
    settings = load(None, {**LEAST, "kafka": SECRETS["sasl.password"]})
    assert settings.kafka.sasl.secret("password") == value


def test_secrets_come_from_files(tmp_path: Path) -> None:
    """The file is read anew at each use; one that can't be read, or isn't text, is an OSError without its bytes."""
    path = tmp_path / "password"
    sasl = kafka("SASL_SSL", sasl={**USER, "password_file": str(path)}).kafka.sasl
    with pytest.raises(OSError, match="No such file"):
        sasl.secret("password")
    for value in (CANARY, "rotated"):
        path.write_text(f"{value}\n")
        assert sasl.secret("password") == value
    path.write_bytes(CANARY.encode() + b"\xff")
    with pytest.raises(OSError, match="not UTF-8") as caught:
        sasl.secret("password")
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("path", SECRETS)
def test_a_secret_in_the_yaml_is_refused(tmp_path: Path, path: str) -> None:
    """It is named by its path and not repeated."""
    section, name = path.split(".")
    file = tmp_path / "rankstream.yaml"
    file.write_text(f"kafka:\n  {section}:\n    {name}: {CANARY}\n")
    with pytest.raises(ConfigError, match=rf"kafka\.{section}\.{name}: secrets come from the environment") as caught:
        load(file)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("path", SECRETS)
def test_a_secret_with_two_sources_is_refused(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A secret and a file with it is refused, not guessed."""
    monkeypatch.setenv(variable(path), CANARY)
    monkeypatch.setenv(variable(f"{path}_file"), "/file")
    with pytest.raises(ConfigError, match=rf"{path.split('.')[1]} and .*_file are both set") as caught:
        load(None, {**LEAST, "kafka": SECRETS[path]})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda settings: f"{settings.kafka!r} {settings.kafka.tls} {settings.kafka.sasl!s}",
        lambda settings: settings.model_dump_json(),
        lambda settings: str(settings.model_dump()),
        lambda settings: str(list(settings.kafka)),
        lambda settings: settings.config_hash(),
        lambda settings: logging.LogRecord("n", 20, "p", 1, "%s", (settings.kafka,), None).getMessage(),
    ],
)
def test_settings_can_be_shown(secret: tuple[str, Settings], show: Any) -> None:
    """No way to print, log or dump the settings holds a secret."""
    _, settings = secret
    assert CANARY in pickle.dumps(settings).decode("latin-1"), "the canary is there to be found"
    assert CANARY not in show(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("RANKSTREAM_KAFKA__SASL", CANARY, id="a section that is a string"),
        pytest.param("RANKSTREAM_KAFKA__SASL", f'{{"password": "{CANARY}"}}', id="a section as JSON, not whole"),
        pytest.param("RANKSTREAM_KAFKA__SASL__PASSWORT", CANARY, id="a misspelt name"),
        pytest.param("RANKSTREAM_KAFKA__SASL__PASSWORD__X", CANARY, id="a password that is a section"),
        pytest.param("RANKSTREAM_KAFKA__SASL__PASSWORD", CANARY, id="a password without mechanism"),
        pytest.param("RANKSTREAM_KAFKA__SASL__MECHANISM", CANARY, id="a password for a mechanism"),
        pytest.param("RANKSTREAM_KAFKA__SASL__TOKEN_URL", CANARY, id="a secret for a URL"),
        pytest.param("RANKSTREAM_KAFKA__SECURITY_PROTOCOL", CANARY, id="a secret for a protocol"),
        pytest.param("RANKSTREAM_KAFKA__TLS__KEY_PASSWORD", CANARY, id="a password without key"),
    ],
)
def test_no_error_repeats_a_value(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Whatever is wrong around a secret, neither the message nor the traceback that is logged holds it."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        load(None, LEAST)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
