"""The order of documents: which follow one another, and in what order."""

import random
from collections.abc import Callable
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


def test_odd_positions_are_passed_over() -> None:
    """One that is no number is that of no document."""
    messages = [message(each, talk=f"t-{each // 8}", nth=each % 8) for each in range(64)]
    messages[7]["nth"] = "last"
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
    """Messages minutes apart in a channel follow one another; four weeks apart, or by a colour, they do not."""
    assert chosen(talk(300, "channel")) == ({"order_by": "created_at", "group_by": "channel"}, "conversation")
    assert chosen(talk(600_000, "channel")) == (None, None)
    assert chosen(talk(300, "colour")) == (None, None)


@pytest.mark.parametrize(
    ("more", "group"),
    [
        (lambda n: {"channel": {"id": f"CX{'AB'[n % 2]}", "name": ["support", "plans"][n % 2]}}, "channel.name"),
        (lambda n: {"channel": {"kind": "public", "name": ["Help for guests", "New plans"][n % 2]}}, "channel.name"),
        (lambda n: {"channel": {"id": f"C{n % 4}AB", "name": ["help", "help", "plans", "shop"][n % 4]}}, "channel.id"),
        (lambda n: {"channelType": "public", "threadId": f"{n % 3 + 10}"}, "threadId"),
        (lambda n: {"room": "office", "author": {"real_name": ["Eva Lind", "Tom Oak"][n % 2]}}, "room"),
    ],
)
def test_short_messages_follow_one_another(more: Callable[[int], dict[str, Any]], group: str) -> None:
    """Their only text is their text, and people read the name of their group, if it parts as many as the id."""
    messages = [{**each, **more(at), "body": each["body"][:20]} for at, each in enumerate(talk(90_000, "colour"))]
    mapping = infer(messages, NOW)
    assert mapping.qdrant["context"] == {"order_by": "created_at", "group_by": group}
    assert (mapping.roles["text"].column, mapping.recipe) == ("body", "conversation")


@pytest.mark.parametrize("name", ["rooms", "ticket_type", "colour"])
def test_what_only_counts_or_sorts_is_no_conversation(name: str) -> None:
    """A short text of documents without others stays their title."""
    found = infer([{**each, "body": each["body"][:20]} for each in talk(300, name)], NOW)
    assert ("title" in found.roles, found.qdrant.get("context")) == (True, None)


@pytest.mark.parametrize(("again", "found"), [("Re: {}", True), ("AW: Re:  {}", True), ("On {} again", False)])
def test_the_subject_of_an_answer_is_no_title_of_its_own(again: str, found: bool) -> None:
    """Mails of a thread follow one another."""
    mails = [
        {**each, "subject": (again if at >= 20 else "{}").format(f"{WORDS[at % 4]} number {at % 20 if found else at}")}
        for at, each in enumerate(talk(300, "thread"))
    ]
    assert (chosen(mails)[1] == "conversation") is found


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
