"""The parts of the feedback flow, made of the settings."""

from functools import partial
from typing import Any, Final

from flows.assembly import query
from flows.assembly.delivery import Replication
from operators.experiments.impression import TokenCodec
from operators.experiments.window import FeedbackOutcome, Windows
from operators.stages.feedback import FeedbackDecoder, FeedbackFinaliser, Join
from schemas.errors import ConfigError
from schemas.settings import Settings

INTERVAL: Final = 1.0
"""Seconds from one transaction to the next: nobody waits for a preference, and with thousands of messages in flight a
transaction costs more."""

_UNBOUNDED: Final = 1 << 30


def find_needs(settings: Settings) -> tuple[str, str, TokenCodec]:
    """The settings without which there is no feedback flow: the topics of feedback and of preferences, and the codec of
    tokens.

    Raises ConfigError if one is missing.
    """
    topics, codec = settings.kafka.topics, query.tokens(settings)
    if topics.feedback is None or topics.preferences is None:
        raise ConfigError("kafka.topics.feedback and kafka.topics.preferences: the feedback flow needs both; set them")
    if codec is None:
        raise ConfigError("cursor.signing_secret_file: the tokens of results are signed by it; set it")
    return topics.feedback, topics.preferences, codec


def feedback_settings(settings: Settings) -> Settings:
    """The same settings, with the delivery that the flow needs.

    Messages of open windows are in flight. A bound on these would stop the time by which windows close, so the join
    has one in its place; and a drain would last as long as a window.
    """
    delivery = settings.delivery
    interval = delivery.transaction_interval or INTERVAL
    own: dict[str, Any] = {"max_in_flight": _UNBOUNDED, "transaction_interval": interval, "drain_timeout": 0.0}
    return settings.model_copy(update={"delivery": delivery.model_copy(update=own)})


class FeedbackParts:
    """The parts of the feedback flow."""

    def __init__(self, settings: Settings, preferences: str, tokens: TokenCodec, member: Replication) -> None:
        section, loop, metrics = settings.feedback, member.consumer_loop, member.signals.metrics
        self.consumer_loop, self.delivery, self.calls = loop, member.delivery, member.calls
        self.deserialiser = member.deserialiser(settings.limits.max_message_bytes, ordered=True)
        self.decoder = FeedbackDecoder(settings.limits.max_message_bytes, tokens)
        windows = partial(Windows, round(section.window * 1000), section.most_clicks, section.max_in_flight)

        def count(outcome: FeedbackOutcome, events: int) -> None:
            metrics.feedback[outcome,].inc(events)

        self.join = partial(Join, preferences, windows, lambda: loop.at_end, loop.ledger.runs, count)
        self.finaliser = FeedbackFinaliser(member.way_out)
