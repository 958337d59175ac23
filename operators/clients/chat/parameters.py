"""The parameters of a chat model's requests, and what is learnt of those that a model refuses.

Models differ in the parameters that they take: one wants `max_completion_tokens` in place of `max_tokens`, another no
`temperature`, a third no `response_format`. Their servers say so in the text of a refusal. A parameter that the text
names is left out of the next try, or renamed; what helped is kept for all later requests. A refusal that quotes a text
of a user may name any parameter: nothing is kept unless the model has answered without it, and after GIVE_UP tries
that did not help a change is no longer tried.

The limit of tokens is renamed, and never left out. A text that says that it is too large is no refusal of it.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import orjson
import structlog

from operators.clients.failures import OUTAGES
from operators.clients.http.dialect import UNAUTHORIZED, Dialect, by_status, failure_of_model
from schemas.errors import BackendBadResponse, BackendError, Reason

log = structlog.stdlib.get_logger(__name__)

Changes = Mapping[str, str | None]
"""Names of parameters, and the name that each is sent under instead; None: it is left out."""

MOST_CHANGES: Final = 4
"""Changes in one request's tries."""

GIVE_UP: Final = 5

_READ: Final = 16 * 1024

LIMITS: Final[Mapping[str, str]] = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""The names of the limit of tokens, each with the one to try in its place."""

_OWN: Final = ("temperature", "tool_choice", "response_format", "output_config", "tools", *LIMITS)
"""Parameters that requests have by themselves, in the order in which they are given up."""

_ALSO_SAID: Final = {
    "response_format": r"json_schema|structured[ _]outputs?|grammar",
    "output_config": r"output_format|json_schema|structured[ _]outputs?",
    "tool_choice": r"tool[ _]choice|forced tool",
    "tools": r"tool|tools|tool[ _]choice|function[ _]call(?:s|ing)?",
}

_REFUSED: Final = re.compile(
    r"unsupported|n[o']t[ _](?:currently )?(?:support|permitt|allow|accept|compatible|available|valid)"
    r"|unrecogni[sz]ed|unknown|no endpoints|deprecated|unavailable|incompatible|forbidden|unexpected"
    r"|invalid|only (?:supports?|allow)|may (?:not|only) be|must be|cannot|can't|requires?|fail(?:s|ed)",
    re.IGNORECASE,
)
_TOO_LARGE: Final = re.compile(
    r"too large|too long|context length|context window|maximum context|exceed", re.IGNORECASE
)

_SPOKEN: Final = frozenset(
    {"message", "msg", "detail", "details", "error", "errors", "param", "code", "type", "loc", "status", "title", "raw"}
)
"""Keys of a refusal under which it speaks; under others it may quote the request."""


class RequestRefused(BackendBadResponse):
    """A refusal in which the server may name a parameter: `said` is its words, for no log and no message."""

    def __init__(self, message: str, status: int, said: str, reason: Reason | None = None) -> None:
        super().__init__(message, status, reason)
        self.said = said


def refusal(name: str, status: int, body: bytes) -> BackendError:
    """The error of an answer without success: a RequestRefused if its words may name a refused parameter.

    The statuses 400 and 422 may name any. Others, with which some servers refuse a parameter, too, are a refusal of
    the request only if they name one of a request's own.
    """
    error = by_status(name, status)
    if status in UNAUTHORIZED | OUTAGES | {408, 413}:
        return error
    said = _words(body)
    if not _REFUSED.search(said) or _TOO_LARGE.search(said):
        return error
    named = [parameter for parameter in _OWN if _names(said, parameter)]
    message = f"{error}: it refuses {named[0]}" if named else str(error)
    if status in {400, 422}:
        return RequestRefused(message, status, said)
    return RequestRefused(message, status, said, Reason.REFUSED) if named else error


CHAT: Final = Dialect(_READ, refusal, failure=failure_of_model)
"""The dialect of chat models' servers."""


class Parameters:
    """The changes to one model's requests that were learnt; `limits`: other names of the limit of tokens."""

    def __init__(self, limits: Mapping[str, str]) -> None:
        self.changes: Changes = {}
        self._limits = limits
        self._failed: Counter[str] = Counter()

    def change(self, error: RequestRefused, body: Mapping[str, Any], made: Changes) -> Changes | None:
        """The changes `made`, and one more, which may spare the refusal of `body`; None if there is none to try."""
        if len(made) - len(self.changes) >= MOST_CHANGES:
            return None
        for name in sorted(body.keys() - {"model", "messages", "system"}, key=_given_up):
            if name in made.values() or self._failed[name] >= GIVE_UP or not _names(error.said, name):
                continue
            instead = self._limits.get(name)
            if instead in body or (instead is None and name in LIMITS):
                continue
            also: Changes = {"tool_choice": None} if name == "tools" else {}
            return {**made, **also, name: instead}
        return None

    def learn(self, made: Changes, model: str) -> None:
        """Keep the changes `made` to a request that was answered, and log what is new in them."""
        for name in made.keys() - self.changes.keys():
            how = {"instead": made[name]} if made[name] else {}
            log.warning("chat model refuses a parameter", model=model, parameter=name, **how)
        self.changes = {**self.changes, **made}

    def unlearn(self, made: Changes) -> None:
        """Note that the changes `made` did not help."""
        self._failed.update(made.keys() - self.changes.keys())


def has_budget(parameters: Mapping[str, Any]) -> bool:
    """True if parameters hold a budget of thoughts, at any depth: many servers want a limit of tokens above it."""
    return any(
        "budget" in name or (isinstance(value, Mapping) and ("max_tokens" in value or has_budget(value)))
        for name, value in parameters.items()
    )


def apply_changes(body: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """`body` with its parameters renamed and left out."""
    renamed = ((changes.get(name, name), value) for name, value in body.items())
    return {name: value for name, value in renamed if name is not None}


def _given_up(name: str) -> tuple[int, str]:
    # Its own before what the configuration asks for.
    return (_OWN.index(name) if name in _OWN else len(_OWN)), name


def _names(said: str, parameter: str) -> bool:
    also = _ALSO_SAID.get(parameter)
    words = re.escape(parameter) + (f"|{also}" if also else "")
    return re.search(rf"(?<![\w])(?:{words})(?![\w])", said, re.IGNORECASE) is not None


def _words(body: bytes) -> str:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")
    found: list[str] = []
    waiting: list[object] = [parsed]
    while waiting:
        match waiting.pop():
            case str(text):
                found.append(text)
            case list(items):
                waiting += reversed(items)
            case dict(fields):
                waiting += [value for key, value in reversed(fields.items()) if key in _SPOKEN]
    return "\n".join(found)
