"""A scenario: what it is called, what it needs, and what it does to a flow under load."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.faults.trial import Trial

Kind = Literal["process", "broker", "topics", "storage", "backend", "clock", "input", "load", "late"]
Hosting = Literal["shared", "own", "proxied", "intercepted", "volume"]
Act = Callable[[Trial], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table.

    `replicas` are up before it acts; `rate` is the load's meanwhile, None for a load of its own. The broker is shared,
    or its own, which the flow may reach through a proxy, or whose logs may be on a small volume. `refused`: classes of
    the dead letters that queries may end as. `settings` go over those of every flow.
    """

    name: str
    kind: Kind
    promise: str
    act: Act
    replicas: int = 1
    rate: float | None = 100.0
    broker: Hosting = "shared"
    refused: frozenset[str] = frozenset()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


CATALOGUE: dict[str, Scenario] = {}
"""Every scenario by its name, in the order of definition."""


def scenario(kind: Kind, *, name: str | None = None, promise: str | None = None, **needs: Any) -> Callable[[Act], Act]:
    """Put a function into the catalogue: its name is the scenario's, its docstring's first line the promise."""

    def register(act: Act) -> Act:
        called = name or act.__name__.replace("_", "-")
        assert called not in CATALOGUE, f"two scenarios are called {called}"
        said = promise or (act.__doc__ or "").splitlines()[0]
        CATALOGUE[called] = Scenario(called, kind, said, act, **needs)
        return act

    return register
