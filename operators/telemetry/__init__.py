"""Telemetry: traces and metrics, exported as OpenTelemetry's environment variables ask.

Operators of clusters set OTEL_PROPAGATORS for programs of all languages, and OpenTelemetry cannot be imported where one
of them isn't installed. So a process removes those before that, and the log names them.
"""

from collections.abc import MutableMapping
from importlib.metadata import entry_points
from typing import Final

_PROPAGATORS: Final = "OTEL_PROPAGATORS"

absent_propagators: Final[list[str]] = []
"""Propagators that were removed, until the log has named them."""


def remove_absent_propagators(environment: MutableMapping[str, str]) -> None:
    """Remove the propagators that aren't installed. To be called before OpenTelemetry's import."""
    known = {"none", *entry_points(group="opentelemetry_propagator").names}
    named = [each.strip() for each in environment.pop(_PROPAGATORS, "").split(",")]
    absent_propagators.extend(each for each in named if each and each.lower() not in known)
    if present := [each for each in named if each.lower() in known]:
        environment[_PROPAGATORS] = ",".join(present)
