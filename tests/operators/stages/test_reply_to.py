"""`reply_to`: a query chooses among the topics that it was given, and no other name gets anywhere."""

from typing import Any

import pytest

from operators.stages.decode import Decoder
from schemas.errors import DeadLetterClass, InputError
from schemas.settings import Limits
from tests.operators.samples import decoder, message

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
    assert DECODE(message({"query_id": "q", "text": "t", "reply_to": topic})).asked.canonical.reply_to == topic


@pytest.mark.parametrize(
    "topic",
    ["", "queries", "Answers", " answers", "answers\n", "answers\x00", "../answers", "*", "\u202eanswers", "a" * 9000],
)
def test_any_other_topic_is_refused(topic: str) -> None:
    """Whatever the string holds, it is no topic: an error that names the field and the value, cut short."""
    kind, said = refused({"query_id": "q", "text": "t", "reply_to": topic})
    assert (kind, said) == (Kind.INVALID, f"reply_to: not a topic that a query may choose ({topic[:80]!r})")


def test_a_megabyte_is_no_topic() -> None:
    """Where a message may be so large, its value is cut short all the same."""
    limits = Limits(max_message_bytes=1_000_000)
    kind, said = refused({"query_id": "q", "text": "t", "reply_to": "\u00fc" * 400_000}, decoder(limits=limits))
    assert (kind, len(said) < 200) == (Kind.INVALID, True)
