"""`rankstream check --part chat`: one call in its final form, and what to do about what comes of it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench.stubs import served
from tests.flows.cli.running import Command
from tests.operators.clients.chat.manners import MANNERS
from tests.operators.clients.chat.playing import ANSWER, Answer, Body, Manner, Playing, openai_refusal, refusing, said

LEAST: dict[str, Any] = {"qdrant": {"url": "http://127.0.0.1:9"}}


def findings(directory: Path, monkeypatch: pytest.MonkeyPatch, manner: Manner, **chat: Any) -> list[tuple[str, str]]:
    """Level and text of each finding about a server with this manner, with what to do, and the requests' number."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Playing(manner).__call__)
    with served(app) as url:
        section: dict[str, Any] = {
            "kind": manner.kind,
            "url": f"{url}/v1",
            "model": "m",
            "structured": manner.structured,
        }
        section |= {"parameters": dict(manner.parameters), "timeout": 30, **chat}
        command = Command(directory, monkeypatch, {**LEAST, "chat": section})
        done = command("check", "--json", "--part", "chat")
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["subject"] for row in rows} == {"chat"}, done.output
    assert done.exit_code == any(row["level"] == "error" for row in rows)
    assert all(row["remedy"] for row in rows if row["level"] != "ok")
    return [(row["level"], f"{row['what']} -> {row['remedy']}") for row in rows]


RANKED = [manner for manner in MANNERS if manner.outcome == "ranked"]


@pytest.mark.parametrize("manner", RANKED, ids=[manner.name for manner in RANKED])
def test_a_server_that_ranks_is_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manner: Manner) -> None:
    """Of each manner, with how quickly it reads; a text where structured output was asked for is a warning."""
    *warnings, (level, text) = findings(tmp_path, monkeypatch, manner)
    assert level == "ok"
    assert "m answers in " in text
    assert re.search(r"a prompt of [0-9,]+ characters in [0-9.]+ s", text)
    behind_a_thought = any(words in manner.case for words in ("parser", "in the text", "format none"))
    assert [each[0] for each in warnings] == ["warning"] * behind_a_thought
    assert all("no structured output by json_schema" in each for _, each in warnings)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said("<think>2", "length"), ["cut at the limit", "Raise chat.max_tokens (1024)", "chat.parameters"]),
        (said("", "length"), ["cut at the limit", "Raise chat.max_tokens"]),
        (said(None, reasoning_content="2"), ["an answer without a text", "Turn thinking off", "reasoning parser"]),
        (said("I would rather not."), ["no document's number", "chat.structured"]),
        (lambda _: (401, {}), ["status 401", "chat.api_key"]),
        (lambda _: (404, {"detail": "Not Found"}), ["status 404: Not Found", "/v1", "chat.model"]),
        (
            refusing("max_tokens", openai_refusal("'max_tokens' is not supported")),
            ["'max_tokens' is not supported", "chat.kind (openai_reasoning has max_completion_tokens)"],
        ),
        (
            refusing("response_format", openai_refusal("This response_format type is unavailable now")),
            ["response_format type is unavailable", "a JSON schema or a tool by chat.structured"],
        ),
        (
            refusing("temperature", {"error": "`temperature` must be strictly positive"}, status=422),
            ["must be strictly positive", "chat.parameters, such as temperature: null"],
        ),
        (lambda _: (400, openai_refusal("The model `m` is not supported.")), ["The model `m` is not supported."]),
        (lambda _: (503, {}), ["status 503", "Start the server"]),
    ],
)
def test_a_failure_has_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Body], Answer], words: list[str]
) -> None:
    """In the server's terms: its own words of a refusal, and keys of the section chat alone."""
    [(level, text)] = findings(tmp_path, monkeypatch, Manner("s", "c", answer))
    assert level == "error"
    assert all(word in text for word in words), text
    assert "qdrant" not in text


def test_a_slow_answer_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that takes longer than a query gives it names the time, and the key to raise."""
    (level, text), ok = findings(tmp_path, monkeypatch, Manner("s", "c", said(ANSWER)), timeout=0.000001)
    assert (level, ok[0]) == ("warning", "ok")
    assert "chat.timeout is 1e-06 s" in text


def test_a_prompt_that_is_not_taken_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two short texts are, and twenty longer ones are not: with the status, and no speed."""
    manner = Manner(
        "s", "c", lambda body: said(ANSWER)(body) if len(str(body)) < 5000 else (500, {"error": "no memory"})
    )
    (level, text), ok = findings(tmp_path, monkeypatch, manner)
    assert (level, ok[0]) == ("warning", "ok")
    assert "does not answer a prompt of 20 texts" in text
    assert "status 500" in text
    assert "a prompt" not in ok[1]


def test_without_a_chat_model_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding says that none is configured."""
    done = Command(tmp_path, monkeypatch, LEAST)("check", "--part", "chat")
    assert done.stdout == "ok      chat: none is configured.\n"
