"""Limits: what the strict mode of a collection allows of one request, as far as requests can be made to fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on a request to one collection; None is no bound.

    `timeout` is in seconds, of what the server may be told to work on it. `searches` are those of one batch, `points`
    those of one upsert, `conditions` those of one filter.
    """

    timeout: int | None = None
    searches: int | None = None
    points: int | None = None
    conditions: int | None = None

    @classmethod
    def of(cls, strict: Mapping[str, Any]) -> Self:
        """Those of a collection whose strict mode is on with these settings."""
        return cls(
            timeout=strict.get("max_timeout"),
            searches=strict.get("search_max_batchsize"),
            points=strict.get("upsert_max_batchsize"),
            conditions=strict.get("filter_max_conditions"),
        )

    def seconds(self, wanted: int) -> int:
        """The time-out to ask for: as long as wanted, if it may be."""
        return wanted if self.timeout is None else min(wanted, self.timeout)


UNLIMITED = Limits()
