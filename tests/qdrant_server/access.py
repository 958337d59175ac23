"""The access rules: API keys, and tokens that may see some collections only, with the words of Qdrant's refusals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import httpx

from operators.clients.qdrant_edge.shards import Refusal

Mode = Literal["r", "rw", "prw"]
"""Reads a collection; writes points and indexes too; writes points only."""

Access = Literal["r", "m"] | Mapping[str, Mode]
"""The whole server, to read or to manage it; or some collections (or aliases, by their own names)."""

OPEN = frozenset({"/", "/healthz", "/readyz", "/livez"})


class Unauthorized(Exception):
    """A request without a key that is known; the message is the answer's body."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The configuration of a server; without `full` and `read_only` everything is allowed.

    `tokens` stand for JWTs: what each may do.
    """

    full: str | None = None
    read_only: str | None = None
    tokens: Mapping[str, Access] = field(default_factory=dict)

    def access(self, headers: httpx.Headers) -> Access:
        """The request's rights; raises Unauthorized."""
        if self.full is None and self.read_only is None:
            return "m"
        key = headers.get("api-key")
        if key is None and headers.get("authorization", "").startswith("Bearer "):
            key = headers["authorization"].removeprefix("Bearer ")
        if key is None:
            raise Unauthorized("Must provide an API key or an Authorization bearer token")
        if key == self.full:
            return "m"
        if key == self.read_only:
            return "r"
        if key not in self.tokens:
            raise Unauthorized("Invalid API key or JWT")
        return self.tokens[key]


def may_see(access: Access, name: str) -> bool:
    """True if a list of collections shows this one."""
    return isinstance(access, str) or name in access


def check_manage(access: Access) -> None:
    """Collections are created, changed and dropped, and aliases changed; raises Refusal (403)."""
    if not isinstance(access, str):
        raise _forbidden("Global access is required")
    if access == "r":
        raise _forbidden("Global manage access is required")


def check_collection(access: Access, name: str, route: tuple[str, str]) -> None:
    """One request on one collection; raises Refusal (403)."""
    write = route[0] in {"PUT", "PATCH", "DELETE"} or route in {
        ("POST", "points/payload"),
        ("POST", "points/delete"),
        ("POST", "points/batch"),
    }
    if isinstance(access, str):
        if write and access == "r":
            raise _forbidden("Global manage access is required")
        return
    if name not in access:
        raise _forbidden(f"Access to collection {name} is required")
    if route == ("PUT", "index") and access[name] == "prw":
        raise _forbidden(f"Only points access is allowed for collection {name}")
    if write and access[name] == "r":
        raise _forbidden(f"Write access to collection {name} is required")


def _forbidden(message: str) -> Refusal:
    return Refusal(403, f"Forbidden: {message}")
