"""The behaviour of a stand-in server, beyond its data: a test keeps it, and may change it while the server runs."""

from dataclasses import dataclass, field

from tests.qdrant_server.access import Keys


@dataclass(slots=True)
class Behaviour:
    """The switches of one server; times in seconds."""

    keys: Keys = field(default_factory=Keys)
    keep_alive: float = 5.0
    """An idle connection is closed after this long; fixed when the server starts."""
    closing: float = 0.0
    """The likelihood that a connection that served a request is closed, unanswered, when the next one arrives."""
    timing_out: bool = False
    """Searches end as on a server that has too much to do."""
    ahead: float = 0.0
    """The seconds by which its clock, which dates its answers, is ahead of the machine's."""
