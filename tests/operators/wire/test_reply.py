"""Replies: the place that a query chooses, and the headers that return on its result."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.wire.reply import MAX_RETURNED, MAX_RETURNED_BYTES, Replies, headers_fit
from schemas.errors import DeadLetterClass, InputError
from schemas.settings.delivery import ReplySettings
from schemas.settings.policies import IdentitySettings, PolicySettings

REPLIES: Final = Replies(("results", "replies.*", "shop-?"), ReplySettings())
SPRING: Final = "kafka_replyTopic"
PARTITION: Final = "kafka_replyPartition"
NAMES: Final = st.text(max_size=20) | st.sampled_from(
    ["kafka_correlationId", "x", "X", "traceparent", "ce_id", "Cookie"]
)
HEADERS: Final = st.lists(st.tuples(NAMES, st.binary(max_size=40)), max_size=MAX_RETURNED).map(tuple)


def refused(
    *headers: tuple[str, bytes], named: str | None = None, replies: Replies = REPLIES
) -> tuple[str | None, str]:
    """The field that an error about these headers names, and its message."""
    with pytest.raises(InputError) as caught:
        replies.choose(named, headers)
    assert caught.value.kind is DeadLetterClass.INVALID
    return caught.value.field, str(caught.value)


@pytest.mark.parametrize("name", [SPRING, "KAFKA_REPLYTOPIC", "REPLY_TOPIC", "reply-to", "reply_to"])
@pytest.mark.parametrize("topic", ["results", "replies.a", "replies.", "shop-7"])
def test_a_header_names_the_topic(name: str, topic: str) -> None:
    """Each of the usual names does, in any case, as the field does: the topics are listed, or fit a pattern."""
    chosen = REPLIES.choose(None, ((name, topic.encode()),))
    assert (chosen.topic, chosen.partition) == (topic, None)
    assert REPLIES.choose(topic, ()).topic == topic


@pytest.mark.parametrize(
    "topic",
    ["queries", "replies", "Replies.a", "shop-", "shop-77", "replies.a b", "replies.\u00e9", "replies." + "a" * 249],
)
def test_no_other_topic_is_chosen(topic: str) -> None:
    """An error names the field or the header, and the value."""
    field, said = refused((SPRING, topic.encode()))
    assert field == SPRING
    assert said.startswith(f"header {SPRING}: not a topic that a query may choose ({topic[:70]!r}"[:-1])
    assert refused(named=topic)[0] == "reply_to"


@pytest.mark.parametrize("topic", ["__consumer_offsets", "..", ".", "a/b", ""])
def test_a_pattern_for_all_does_not_fit_what_is_no_topic_of_a_client(topic: str) -> None:
    """Not the topics of Kafka itself, either: a broker refuses the request, and the process would end."""
    everything = Replies(("*",), ReplySettings())
    assert everything.choose("any", ()).topic == "any"
    assert refused(named=topic, replies=everything)[0] == "reply_to"


def test_two_names_for_a_topic_must_agree() -> None:
    """A field and a header, or two headers, that name two topics are an error; an empty header counts as absent."""
    assert REPLIES.choose("results", ((SPRING, b"results"), ("reply-to", b"results"))).topic == "results"
    assert REPLIES.choose("results", ((SPRING, b""),)).topic == "results"
    assert REPLIES.choose(None, ((SPRING, b""),)).topic is None
    assert refused((SPRING, b"replies.a"), named="results")[0] == SPRING
    assert refused((SPRING, b"replies.a"), ("reply-to", b"replies.b"))[0] == "reply-to"
    assert refused((SPRING, b"replies.a"), (SPRING, b"replies.b"))[0] == SPRING
    assert refused((SPRING, b"\xff"))[1].startswith(f"header {SPRING}: not UTF-8")


@given(st.integers(0, 2**31 - 1))
def test_a_partition_is_four_bytes_or_digits(number: int) -> None:
    """Spring writes an integer, big-endian; others write text. A number of digits alone is text."""
    binary = number.to_bytes(4)
    assert REPLIES.choose(None, ((PARTITION, str(number).encode()),)).partition == number
    assert REPLIES.choose(None, (("REPLY_PARTITION", binary),)).partition == (
        int(binary) if binary.isdigit() else number
    )


@pytest.mark.parametrize("value", [b"\xff\xff\xff\xff", b"-1", b"12 ", b"\x00", b"\x00" * 8, b"9999999999", b"one"])
def test_anything_else_is_no_partition(value: bytes) -> None:
    """A negative number, an integer of eight bytes, and any other text are an error that names the header."""
    field, said = refused((PARTITION, value))
    assert (field, said.startswith(f"header {PARTITION}: not a partition's number")) == (PARTITION, True)


def test_headers_that_are_not_configured_choose_nothing() -> None:
    """With empty lists, they are headers like any other."""
    silent = Replies(("results",), ReplySettings(topic_headers=[], partition_headers=[]))
    assert silent.choose(None, ((SPRING, b"elsewhere"), (PARTITION, b"x"))) == silent.choose(None, ())
    own = Replies(("results",), ReplySettings(topic_headers=["X-To"], partition_headers=["x-at"]))
    assert own.choose(None, (("x-to", b"results"), ("X-At", b"3")))[:2] == ("results", 3)


@given(HEADERS)
def test_headers_return_as_they_are(headers: tuple[tuple[str, bytes], ...]) -> None:
    """In their order, repeated names included: all but those that are ours, or withheld."""
    gone, ours = {"traceparent", "ce_id", "Cookie"}, ("ce_", "__connect.errors.", "rankstream.")
    kept = (each for each in headers if each[0] not in gone and not each[0].lower().startswith(ours))
    assert REPLIES.returning(headers, ()) == tuple(kept)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "traceparent",
            "TraceState",
            "content-type",
            "ce_type",
            "CE_x",
            "__connect.errors.topic",
            "rankstream.replayed",
        ),
        *("__TypeId__", "Authorization", "cookie", "X-Source", "baggage", "x-secret-1"),
        *("__value_schema_id", "contentType", "Content-Encoding", "apicurio.value.globalId"),
    ],
)
def test_headers_that_would_mislead_or_tell_do_not_return(name: str) -> None:
    """Ours, those that describe the value, the name of the source, and those that the settings withhold."""
    settings = ReplySettings(withheld_headers=["authorization", "cookie", "x-secret-*"])
    replies = Replies(("results",), settings, PolicySettings(identity=IdentitySettings(by="header", header="x-source")))
    headers = (("a", b"1"), (name, b"2"), ("b", b"3"))
    assert replies.returning(headers, (("Baggage", b"ours"),)) == (("a", b"1"), ("b", b"3"))


@pytest.mark.parametrize(
    "many", [[("h", b"")] * (MAX_RETURNED + 1), [("h", b"x" * MAX_RETURNED_BYTES)], [("h", b"x" * 9000)] * 2]
)
def test_too_many_headers_do_not_return(many: list[tuple[str, bytes]]) -> None:
    """Only a correlation id does then, if it is short."""
    long = ("correlation-id", b"x" * 600)
    headers = (*many, ("kafka_correlationId", b"7"), long)
    assert not headers_fit(headers)
    assert REPLIES.returning(headers, ()) == (("kafka_correlationId", b"7"),)
    assert REPLIES.returning((("x-request-id", b""),) * (MAX_RETURNED + 1), ()) == ()


def test_the_bounds_are_inclusive() -> None:
    """Headers of just so many, and of just so many bytes, return."""
    for headers in [(("h", b""),) * MAX_RETURNED, (("h", b"x" * (MAX_RETURNED_BYTES - 1)),)]:
        assert REPLIES.returning(headers, ()) == headers
