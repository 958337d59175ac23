"""Logs: one JSON object a line, or for people; ours and the libraries' alike, trace ids where there is a trace.

What comes again and again is said when it begins, and then once a minute with how often: the chatter of the Kafka
clients, our own failures that are retried, what we count (dead letters, failures of backends), and traces and metrics
that are not exported. Every other line is printed.
"""

import logging
import re
import sys
import time
from collections.abc import Callable, Hashable
from typing import Final

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor, WrappedLogger

from operators.telemetry import absent_propagators
from schemas.settings import TelemetrySettings
from schemas.texts import printable

INTERVAL: Final = 60.0
"""Seconds."""

KINDS: Final = 256
"""The number of kinds that are told apart; the oldest makes room."""

_NUMBER: Final = re.compile(r"\d+")
_COUNT: Final = "count"
_KIND: Final = ("event", "reason", "error", "backend", "collection", "class", "stage", "topic")
"""The values by which our own events are of one kind; numbers in them don't count."""

_CONNECTIONS: Final = "kafka.net"
"""One broken connection is several lines of these loggers."""
_EXPORT: Final = "operators.telemetry.export"
"""The logger of batches that are not exported: the next one fails for the same reason."""


class Repeats(logging.Filter):
    """Lets the first record of a kind through, then one in INTERVAL, which says in `repeated` how many there were.

    What a record counts itself, in its `count`, is summed up there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is printed."""
        kind = _kind(record)
        if kind is None:
            return True
        now = self._clock()
        said, unsaid = self._said.pop(kind, (None, 0))
        event = record.msg if isinstance(record.msg, dict) else None
        count = event.get(_COUNT) if event is not None else None
        if said is not None and now - said < INTERVAL:
            self._said[kind] = said, unsaid + (count or 1)
            return False
        if len(self._said) == KINDS:
            del self._said[next(iter(self._said))]
        self._said[kind] = now, 0
        if unsaid:
            if event is None:
                record.repeated = unsaid
            else:
                event["repeated" if count is None else _COUNT] = (count or 0) + unsaid
        return True


def _is_of_client(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in {"kafka", "librdkafka"}


def _kind(record: logging.LogRecord) -> Hashable:
    """The kind of a record; None if each of them is printed."""
    if isinstance(event := record.msg, dict):
        if _COUNT not in event and "retry_in_s" not in event and record.name != _EXPORT:
            return None
        return record.name, *(_NUMBER.sub("0", str(event.get(name))) for name in _KIND)
    if record.levelno < logging.WARNING or (not _is_of_client(record) and record.name != SPANS_DROPPED):
        return None
    if record.name.startswith(_CONNECTIONS):
        return _CONNECTIONS
    return record.name, _NUMBER.sub("0", record.getMessage())


SPANS_DROPPED: Final = "opentelemetry.sdk._shared_internal"
"""The one logger of OpenTelemetry that is heard: it says that spans are dropped, as more end than are exported."""

QUOTING: Final = {
    "httpx": logging.WARNING,
    "opentelemetry": logging.CRITICAL,
    SPANS_DROPPED: logging.WARNING,
    "urllib3": logging.ERROR,
}
"""Libraries whose lines quote what they are given below which level: headers of messages, which may hold anything, of
any length; headers and URLs of exporters, with the secrets in them; the query of an issuer of tokens."""

CHATTER: Final = {
    "kafka.cluster": logging.CRITICAL,
    "kafka.net.selector": logging.ERROR,
    "kafka.net.transport": logging.CRITICAL,
    "kafka.protocol.parser": logging.CRITICAL,
}
"""Loggers of kafka-python below which level nothing helps an operator: requests for metadata that were cancelled,
warnings about its own loop, such as a connection made on a busy machine, and the bytes of answers that it cannot read,
for which the call fails, too."""


_TRACEBACKS: Final = frozenset({"exception", "stack"})
"""Values of several lines, which are our own."""


def _trace_ids(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _printable(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace the characters that a terminal would obey in texts of others; JSON escapes them."""
    return {
        name: printable(value, "\n" if name in _TRACEBACKS else "") if isinstance(value, str) else value
        for name, value in event.items()
    }


def configure(settings: TelemetrySettings, replica: str | None = None, *, clients: bool = True) -> None:
    """Send every log record of this process to standard error as the settings say; each names the replica, if given.

    Without `clients` those of Kafka's clients are dropped, unless all is asked for: a command may report their
    failures.
    """

    def add_replica(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        return event if replica is None else {"replica": replica, **event}

    shared: list[Processor] = [
        add_replica,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso"),
        _trace_ids,
    ]
    rendered: list[Processor] = (
        [structlog.processors.JSONRenderer()]
        if settings.log_format == "json" or (settings.log_format is None and not sys.stderr.isatty())
        else [_printable, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                *rendered,
            ],
        )
    )
    if settings.log_level != "debug":
        if not clients:
            handler.addFilter(lambda record: not _is_of_client(record))
        handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    # A client's chatter about every connection is of use only when asked for; at DEBUG both print what is on the wire,
    # passwords and texts.
    debugging = root.level <= logging.DEBUG
    clients_level = logging.INFO if debugging else max(root.level, logging.WARNING)
    chatter = dict.fromkeys(CHATTER, logging.NOTSET) if debugging else CHATTER
    for name, level in {**QUOTING, **chatter, "kafka": clients_level, "httpcore": clients_level}.items():
        logging.getLogger(name).setLevel(level)
    if absent_propagators:
        names = ", ".join(absent_propagators)
        structlog.stdlib.get_logger(__name__).warning("propagators of traces are not installed", propagators=names)
        absent_propagators.clear()
