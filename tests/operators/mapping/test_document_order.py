"""The order of documents: which follow one another, and in what order."""

import random
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from operators.mapping.inference import infer

NOW: Final = 1_760_000_000.0
BEGIN: Final = 1_700_000_000
WORDS: Final = ("lamp", "door", "router", "printer", "cable", "button", "light", "sheet", "water", "garden", "stone")


def message(number: int, **more: Any) -> dict[str, Any]:
    """A message of a few words, under names of another program's."""
    chance = random.Random(number)
    return {"key": f"m-{number:04}", "body": " ".join(chance.choices(WORDS, k=12)), **more}


def chosen(documents: list[dict[str, Any]]) -> tuple[Any, str | None]:
    """The context and the recipe that these documents get."""
    mapping = infer(documents, NOW)
    return mapping.qdrant.get("context"), mapping.recipe


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_that_begin_again_in_each_group_are_positions(first: int) -> None:
    """The first may be 0 or 1, and the file may be in any order."""
    messages = [message(each, talk=f"t-{each // 8}", nth=each % 8 + first) for each in range(64)]
    random.Random(1).shuffle(messages)
    assert chosen(messages) == ({"order_by": "nth", "group_by": "talk"}, "conversation")


def test_a_namespace_is_a_group() -> None:
    """Positions that begin again in each namespace need no other group."""
    messages = [message(each, tenant=f"t-{each // 16}", nth=each % 16) for each in range(64)]
    assert chosen(messages) == ({"order_by": "nth"}, "conversation")


def talk(seconds: int, group: str) -> list[dict[str, Any]]:
    """Messages in turn of four groups, so many seconds apart."""
    times = (datetime.fromtimestamp(BEGIN + seconds * each, UTC).isoformat() for each in range(60))
    return [message(each, **{group: f"c{each % 4}"}, sent=time) for each, time in enumerate(times)]


def test_times_order_what_is_called_a_conversation() -> None:
    """Messages minutes apart in a channel follow one another; a month apart, or by a colour, they do not."""
    assert chosen(talk(300, "channel")) == ({"order_by": "created_at", "group_by": "channel"}, "conversation")
    assert chosen(talk(600_000, "channel")) == (None, None)
    assert chosen(talk(300, "colour")) == (None, None)


def test_documents_with_titles_stand_by_themselves() -> None:
    """Articles that are numbered within their section follow nothing."""
    articles = [
        message(each, section=f"s-{each // 8}", nth=each % 8, headline=f"The {WORDS[each % 11]} {each}")
        for each in range(64)
    ]
    for each in articles:
        each["body"] = f"{each['headline']} {each['body']}"
    assert chosen(articles) == (None, None)


@pytest.mark.parametrize("gap", [0, 2])
def test_numbers_with_gaps_or_of_several_documents_are_no_positions(gap: int) -> None:
    """A rating is that of several documents, and a count of likes leaves numbers out."""
    messages = [message(each, thing=f"t-{each // 8}", nth=gap * (each % 8)) for each in range(64)]
    assert chosen(messages) == (None, None)


def test_long_texts_are_compared() -> None:
    """Texts of a paragraph or more get the recipe that compares candidates; of these, parts of a text stay such."""
    long = [message(each, body=" ".join(random.Random(each).choices(WORDS, k=150))) for each in range(40)]
    assert chosen(long) == (None, "documents")
    parts = [{**each, "talk": f"t-{at // 8}", "nth": at % 8} for at, each in enumerate(long)]
    assert chosen(parts)[1] == "conversation"
