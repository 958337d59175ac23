"""`reply_to`: a query chooses among the topics that it was given, and no other name gets anywhere."""

from dataclasses import replace
from typing import Any

import pytest

from operators.stages.decode import Decoder
from operators.wire.message import Headers, Message, Rejected
from operators.wire.reply import Replies
from schemas.errors import DeadLetterClass, InputError
from schemas.settings import Limits, PolicySettings, SourcePolicy
from schemas.settings.delivery import ReplySettings
from schemas.settings.policies import IdentitySettings
from tests.operators.samples import REPLIES, decoder, message, trace, way_out

Kind = DeadLetterClass
DECODE = decoder()


def refused(value: Any, decode: Decoder = DECODE) -> tuple[DeadLetterClass, str]:
    """Class and message of what is said about a message."""
    with pytest.raises(InputError) as caught:
        decode(message(value))
    return caught.value.kind, str(caught.value)


@pytest.mark.parametrize("topic", ["results", "answers"])
def test_a_query_may_choose_a_topic_of_the_list(topic: str) -> None:
    """The results topic itself is one that can be named, and so is every one of the allow list."""
    assert DECODE(message({"query_id": "q", "text": "t", "reply_to": topic})).asked.reply.topic == topic


@pytest.mark.parametrize(
    "topic",
    ["", "queries", "Answers", " answers", "answers\n", "answers\x00", "../answers", "*", "\u202eanswers", "a" * 9000],
)
def test_any_other_topic_is_refused(topic: str) -> None:
    """Whatever the string holds, it is no topic: an error that names the field and the value, cut short."""
    kind, said = refused({"query_id": "q", "text": "t", "reply_to": topic})
    assert (kind, said) == (Kind.INVALID, f"reply_to: not a topic that a query may choose ({topic[:80]!r})")


def test_a_megabyte_is_no_topic() -> None:
    """The value is cut short all the same if a message may be so large."""
    limits = Limits(max_message_bytes=1_000_000)
    kind, said = refused({"query_id": "q", "text": "t", "reply_to": "\u00fc" * 400_000}, decoder(limits=limits))
    assert (kind, len(said) < 200) == (Kind.INVALID, True)


# What a source may choose

NAMED = {"web": SourcePolicy(reply_to=["results"]), "shut": SourcePolicy(read=False, reply_to=["answers"])}
BY_EVENT = PolicySettings(sources=NAMED)
BY_HEADER = PolicySettings(identity=IdentitySettings(by="header", header="x-source"), sources=NAMED)
BY_TOPIC = PolicySettings(
    identity=IdentitySettings(by="topic", topics={"queries": "web"}), default=SourcePolicy(reply_to=[]), sources=NAMED
)
WAYS = [(BY_EVENT, {"source": "web"}, ()), (BY_HEADER, {}, (("X-Source", b"web"),)), (BY_TOPIC, {}, ())]
"""Each way in which a source is known, with an event of the source `web`."""


def sent(event: dict[str, Any], headers: Headers) -> Message:
    """The message of an event with these fields."""
    return replace(message({"query_id": "q", "text": "t", **event}), headers=headers)


@pytest.mark.parametrize(("policies", "event", "headers"), WAYS)
def test_a_source_chooses_among_the_topics_of_its_policy(
    policies: PolicySettings, event: dict[str, Any], headers: Headers
) -> None:
    """Its own are taken, and none is named at will; another one is refused like one that nobody may choose."""
    decode = decoder(policies=policies)
    for reply_to in ("results", None):
        assert decode(sent({**event, "reply_to": reply_to}, headers)).asked.reply.topic == reply_to
    with pytest.raises(InputError) as caught:
        decode(sent({**event, "reply_to": "answers"}, headers))
    assert (caught.value.kind, caught.value.field) == (Kind.INVALID, "reply_to")
    assert str(caught.value) == "reply_to: not a topic that this source may choose ('answers')"


def test_without_topics_in_its_policy_a_source_chooses_any() -> None:
    """As do the sources that no policy is written for."""
    for source in ("other", None):
        query = decoder(policies=BY_EVENT)(sent({"source": source, "reply_to": "answers"}, ()))
        assert query.asked.reply.topic == "answers"


def test_a_denial_goes_nowhere_that_its_source_may_not_choose() -> None:
    """A denied query is answered, too: its topic is judged first."""
    decode = decoder(policies=BY_EVENT)
    assert decode(sent({"source": "shut", "reply_to": "answers"}, ())).asked.denial is not None
    with pytest.raises(InputError, match="reply_to: not a topic that this source may choose"):
        decode(sent({"source": "shut", "reply_to": "results"}, ()))


@pytest.mark.parametrize(("policies", "event", "headers"), WAYS)
@pytest.mark.parametrize("wrong", [{}, {"limit": 2.5}, {"text": 5}, {"surprise": 1}, {"schema_version": 9}])
def test_no_refusal_goes_where_its_source_may_not_choose(
    policies: PolicySettings, event: dict[str, Any], headers: Headers, wrong: dict[str, Any]
) -> None:
    """Whatever is wrong with a query, it is told on the results topic; where the source may choose, there."""
    out = way_out(policies=policies, results="default-results", replies=REPLIES)
    for reply_to, topic in (("answers", "default-results"), ("results", "results"), ("queries", "default-results")):
        given = sent({**event, **wrong, "reply_to": reply_to}, headers)
        assert out.refuse(Rejected(given, Kind.INVALID, "decode", "wrong", trace=trace()))[0].topic == topic


@pytest.mark.parametrize("headers", [(("x-source", b"a"), ("X-SOURCE", b"a")), (("x-source", b"\xff"),)])
def test_a_source_that_is_not_known_for_sure_chooses_none(headers: Headers) -> None:
    """By a header that is there twice, or isn't UTF-8, nobody escapes the policy."""
    given = Rejected(sent({"reply_to": "answers"}, headers), Kind.INVALID, "decode", "wrong", trace=trace())
    assert way_out(policies=BY_HEADER).refuse(given)[0].topic == "results"


def test_a_policy_has_patterns_too() -> None:
    """Of the topics that a pattern of the configuration allows, a source chooses those that one of its own fits."""
    policies = PolicySettings(sources={"web": SourcePolicy(reply_to=["replies.web-*"])})
    replies = Replies(("results", "replies.*"), ReplySettings())
    decode, out = decoder(policies=policies, replies=replies), way_out(policies=policies, replies=replies)
    for topic, chosen in (("replies.web-1", True), ("replies.app-1", False)):
        given = sent({"source": "web"}, (("kafka_replyTopic", topic.encode()),))
        refusal, _ = out.refuse(Rejected(given, Kind.INVALID, "decode", "wrong", trace=trace()))
        assert refusal.topic == (topic if chosen else "results")
        if chosen:
            assert decode(given).asked.reply.topic == topic
            continue
        with pytest.raises(InputError, match="header kafka_replyTopic: not a topic that this source may choose"):
            decode(given)


def test_a_query_with_many_headers_is_warned() -> None:
    """Its result says that some may be missing."""
    many = replace(message({"query_id": "q", "text": "t"}), headers=(("h", b"x" * 20_000),))
    assert DECODE(many).outcome.warnings == ["headers: more than 64 or 16384 bytes: they may be missing on the result"]
