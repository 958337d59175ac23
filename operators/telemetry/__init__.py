"""Telemetry: traces and metrics, exported as OpenTelemetry's environment variables ask.

OpenTelemetry's specification has invalid values ignored with a warning. Its SDK raises for some of them, of which two
are read when it is imported. So a process removes them from its environment before that, and the log names them.
"""

import re
from collections.abc import Callable, Mapping, MutableMapping
from importlib.metadata import entry_points
from typing import Final
from urllib.parse import unquote

ignored: Final[list[str]] = []
"""Variables whose value, or a part of it, was invalid, until the log has named them."""

Valid = Callable[[str], str]
"""Returns the valid part of a value."""


def _matching(pattern: str) -> Valid:
    known = re.compile(pattern, re.IGNORECASE | re.ASCII)
    return lambda value: value if known.fullmatch(value.strip()) else ""


def _between(low: float, high: float) -> Valid:
    def valid(value: str) -> str:
        try:
            return value if low <= float(value) <= high else ""
        except ValueError:
            return ""

    return valid


def _members(is_valid: Callable[[str], bool]) -> Valid:
    return lambda value: ",".join(each for each in value.split(",") if is_valid(each.strip()))


def _plugin(group: str, *others: str) -> Callable[[str], bool]:
    return lambda name: name.lower() in others or bool(entry_points(group=group, name=name))


_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^`|~\w]+", re.ASCII)
_QUOTED: Final = re.compile(r"[ !#-+\--:<-\[\]-~]*")
_LATIN: Final = re.compile(r"[\x20-\x7e\xa0-\xff]*")


def _is_header(pair: str) -> bool:
    """True for `name=value` that the SDK reads, and that HTTP can carry once its percent encoding is undone."""
    name, equals, value = (each.strip() for each in pair.partition("="))
    texts = ((_TOKEN, name), (_TOKEN, unquote(name)), (_QUOTED, value), (_LATIN, unquote(value)))
    return bool(equals) and all(pattern.fullmatch(text) for pattern, text in texts)


# Nine digits are more than any of them needs, and fewer than what a clock or a queue can't hold.
_COUNT: Final = _matching(r"0*\d{1,9}")
_POSITIVE: Final = _matching(r"0*[1-9]\d{0,8}")
_SECONDS: Final = _between(0.001, 1e6)
_BOOLEAN: Final = _matching("true|false")

_QUEUE: Final = "OTEL_BSP_MAX_QUEUE_SIZE"
_BATCH: Final = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
_DEFAULT_QUEUE: Final = 2048
_DEFAULT_BATCH: Final = 512
_BY_SIGNAL: Final[Mapping[str, Valid]] = {
    "HEADERS": _members(_is_header),
    "TIMEOUT": _SECONDS,
    "COMPRESSION": _matching("none|gzip|deflate"),
}
_CREDENTIALS: Final = _members(_plugin("opentelemetry_otlp_credential_provider"))
_SIGNALS: Final = ("", "TRACES_", "METRICS_")
_LIMITED: Final = (
    *("ATTRIBUTE_COUNT", "ATTRIBUTE_VALUE_LENGTH", "SPAN_ATTRIBUTE_COUNT", "SPAN_ATTRIBUTE_VALUE_LENGTH"),
    *("SPAN_EVENT_COUNT", "SPAN_LINK_COUNT", "EVENT_ATTRIBUTE_COUNT", "LINK_ATTRIBUTE_COUNT"),
)
_VARIABLES: Final[Mapping[str, Valid]] = {
    "OTEL_SDK_DISABLED": _BOOLEAN,
    "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED": _BOOLEAN,
    "OTEL_PROPAGATORS": _members(_plugin("opentelemetry_propagator", "none")),
    "OTEL_PYTHON_CONTEXT": _members(_plugin("opentelemetry_context")),
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": _members(_plugin("opentelemetry_resource_detector", "*")),
    "OTEL_RESOURCE_ATTRIBUTES": _members(lambda pair: "=" in pair),
    "OTEL_TRACES_SAMPLER": _matching("(parentbased_)?(always_on|always_off|traceidratio)"),
    "OTEL_TRACES_SAMPLER_ARG": _between(0, 1),
    **{f"OTEL_{limited}_LIMIT": _COUNT for limited in _LIMITED},
    "OTEL_BSP_SCHEDULE_DELAY": _POSITIVE,
    "OTEL_BSP_EXPORT_TIMEOUT": _COUNT,
    _QUEUE: _POSITIVE,
    _BATCH: _POSITIVE,
    **{f"OTEL_EXPORTER_OTLP_{signal}{of}": valid for signal in _SIGNALS for of, valid in _BY_SIGNAL.items()},
    **{f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{signal}CREDENTIAL_PROVIDER": _CREDENTIALS for signal in _SIGNALS},
}


def remove_invalid(environment: MutableMapping[str, str]) -> None:
    """Remove the values that OpenTelemetry can't read, and note them in `ignored`. To be called before its import."""
    for name, valid in _VARIABLES.items():
        value = environment.pop(name, "")
        if rest := valid(value):
            environment[name] = rest
        if rest != value:
            ignored.append(name)
    most = int(environment.get(_QUEUE, _DEFAULT_QUEUE))
    if int(environment.get(_BATCH, _DEFAULT_BATCH)) > most:
        # A batch is no larger than the queue, whichever of the two is set.
        ignored.extend({_BATCH} & environment.keys())
        environment[_BATCH] = str(most)
