"""Pairs of questions, labelled: close questions with different answers, and paraphrases.

`python -m bench.question_pairs` prints them as JSON Lines; tests/data/question_pairs.jsonl is what it printed. A pair
is a question that was answered before, one that is asked now, whether the answer is the same, and the kind of the
difference. By rule: a number, an identifier, a name, a negation, a direction or the order of two names is changed, or
fillers are added. The pairs in bench.written_pairs are written by hand.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final, NamedTuple

from bench.written_pairs import CLOSE, SAME


class Pair(NamedTuple):
    """A question that is `cached`, and one that is `asked`; `same`: its answer is the same."""

    kind: str
    same: bool
    cached: str
    asked: str


_SLOTS: Final[Sequence[tuple[str, Sequence[str], Sequence[str]]]] = (
    (
        "number",
        (
            "what does error code {} mean",
            "how many people work on floor {}",
            "show the payment terms of invoice {}",
            "what is the maximum speed of train {}",
            "who signed contract {}",
            "which port does service {} listen on",
        ),
        ("1234", "1235", "2134", "12345", "124", "1,244", "12.34"),
    ),
    (
        "identifier",
        (
            "what does error code {} mean",
            "when is invoice {} due",
            "where is part {} stored",
            "who is assigned to ticket {}",
            "how do I replace module {}",
        ),
        ("E1234", "E1235", "2023-118", "2023-119", "AB-12-C", "AB-12-D", "X100", "X100s"),
    ),
    (
        "version",
        ("what changed in version {}", "how do I upgrade to Python {}", "is release {} still supported"),
        ("3.11", "3.12", "3.1", "3.11.2", "v3", "4.0"),
    ),
    (
        "date",
        (
            "how much revenue did we make in the fiscal year {}",
            "who won the world cup {}",
            "what is the holiday plan {}",
        ),
        ("2021", "2022", "2012", "1998", "FY21", "FY23"),
    ),
    (
        "date",
        ("when did Anna go camping in {}", "how many jars did we sell in {}", "who was absent on the second of {}"),
        ("June", "July", "January", "February", "March", "May"),
    ),
    (
        "unit",
        (
            "what does it cost to ship 5 {} of steel",
            "what does 10 {} of gold cost",
            "is 40 {} too much for the shelf",
        ),
        ("kilograms", "grams", "pounds", "ounces", "tons", "milligrams"),
    ),
    (
        "unit",
        ("how long is 5 {} in feet", "how far is 80 {} from the station"),
        ("meters", "miles", "inches", "yards", "kilometers"),
    ),
    (
        "name",
        (
            "when was {} born",
            "what did {} say about the merger",
            "what is the phone number of {}",
            "who is the manager of {}",
            "did {} sign the lease",
        ),
        ("Anna Berg", "Anna Burg", "Hannah Berg", "Peter Berg", "Paul", "Paula", "Maria", "Mario"),
    ),
    (
        "place",
        ("what is the capital of {}", "how many people live in {}", "what are the visa rules for {}"),
        ("Austria", "Australia", "Niger", "Nigeria", "North Korea", "South Korea", "Iran", "Iraq"),
    ),
    *(
        (
            "negation",
            (
                "which guests are {}allergic to nuts",
                "is it {}safe to restart the server",
                "which tickets are {}refundable",
                "who was {}invited to the meeting",
                "which machines have {}failed since May",
            ),
            ("", negation),
        )
        for negation in ("not ", "never ")
    ),
    (
        "presence",
        ("recipes {} gluten", "flights {} a stopover", "can I pay {} a credit card", "apartments {} furniture"),
        ("with", "without"),
    ),
    ("direction", ("how do I migrate {} Postgres", "who transferred money {} Acme", "a train {} Oslo"), ("to", "from")),
    (
        "direction",
        ("what must be done {} the release", "who left {} the merger", "what did Anna say {} the meeting"),
        ("before", "after", "during"),
    ),
    (
        "direction",
        ("rooms {} the third floor", "which prices are {} 900 euros", "who lives {} the bakery"),
        ("above", "below"),
    ),
    (
        "comparative",
        ("the {} paid job at the company", "which plan is the {} expensive", "who is the {} experienced engineer"),
        ("most", "least", "second most"),
    ),
    (
        "comparative",
        ("which city has {} rain than Oslo", "which plan is {} expensive than ours", "who sold {} jars than Anna"),
        ("more", "less"),
    ),
    (
        "question word",
        ("{} did the team sign the contract", "{} is the annual meeting held", "{} did Anna move the servers"),
        ("when", "where", "why", "how"),
    ),
    (
        "tense",
        ("who {} the director of the museum", "what {} the price of the ticket", "where {} the annual meeting"),
        ("is", "was", "will be"),
    ),
)

_SWAPPED: Final = (
    "flights from {} to {}",
    "is {} larger than {}",
    "did {} lend money to {}",
    "how many goals did {} score against {}",
    "convert {} to {}",
    "what does {} owe {}",
)
_TWO: Final = (
    ("London", "Paris"),
    ("Anna", "Peter"),
    ("Ajax", "Porto"),
    ("dollars", "euros"),
    ("Celsius", "Fahrenheit"),
    ("Acme", "Globex"),
)

_PLAIN: Final = (
    "what does error code E1234 mean",
    "when is invoice 2023-118 due",
    "who signed the contract with Acme",
    "how many people work in the Oslo office",
    "where is the spare key of the server room",
    "which port does the billing service listen on",
    "why did the nightly backup fail",
    "when does the museum open on Sunday",
    "who wrote the report about the merger",
    "how long is the guarantee of the pump",
    "where can I park near the station",
    "which documents does the embassy ask for",
    "does the insurance cover water damage",
    "how many vacation days do new employees get",
)
_THINGS: Final = (
    "the capital of France",
    "the phone number of the help desk",
    "the boiling point of ethanol",
    "the deadline for the tax return",
    "the name of the new director",
    "the difference between a lease and a rental",
    "the weight limit of the elevator",
    "the opening hours of the library",
)
_TASKS: Final = (
    "reset the password of my account",
    "bake bread without yeast",
    "cancel an order",
    "connect the printer to the network",
    "renew a passport",
    "export the invoices of 2023",
    "remove a scratch from a table",
    "apply for parental leave",
)
_POLITE: Final = (
    "please, {}?",
    "{}, please",
    "{} please?",
    "Hello, {}?",
    "Hi there! {}",
    "{}? Thanks!",
    "{}, thank you",
)
_ASKED: Final = ("can you tell me {}?", "please tell me {}", "could you please tell me {}?", "I would like to know {}")
_WHAT: Final = ("what is {}?", "what's {}", "tell me {}", "can you tell me what {} is?", "please tell me what {} is")
_HOW: Final = (
    "how can I {}?",
    "how to {}",
    "can you tell me how to {}?",
    "please tell me how I can {}",
    "how do I {}?",
)
_MARKS: Final = ("{}?", "{}.", "  {} ?", "{}!", "{} ?")


def _by_slot() -> Iterator[Pair]:
    for kind, questions, values in _SLOTS:
        for question in questions:
            for one, other in pairwise((*values, values[0]) if len(values) > 2 else values):
                yield Pair(kind, False, question.format(one), question.format(other))


def _by_order() -> Iterator[Pair]:
    for question in _SWAPPED:
        for one, other in _TWO:
            yield Pair("order", False, question.format(one, other), question.format(other, one))


def _by_filler() -> Iterator[Pair]:
    for question in _PLAIN:
        yield from (Pair("politeness", True, question, each.format(question)) for each in _POLITE)
        yield from (Pair("frame", True, question, each.format(question)) for each in _ASKED)
        yield from (Pair("punctuation", True, question, each.format(question)) for each in _MARKS)
        yield from (Pair("case", True, question, each) for each in (question.upper(), question.capitalize()))
        if " the " in question:
            yield Pair("article", True, question, question.replace(" the ", " "))
    for thing in _THINGS:
        yield from (Pair("frame", True, f"what is {thing}", each.format(thing)) for each in _WHAT)
        yield Pair("article", True, f"what is {thing}", f"what is {thing.removeprefix('the ')}")
        yield Pair("article", True, thing, thing.replace("the ", ""))
    for task in _TASKS:
        yield from (Pair("frame", True, f"how do I {task}", each.format(task)) for each in _HOW)
        yield from (
            Pair("politeness", True, f"how do I {task}", each.format(f"how do I {task}")) for each in _POLITE[:3]
        )


def pairs() -> list[Pair]:
    """All pairs, each once, by kind."""
    written = (
        Pair(kind, same, *each) for same, part in ((False, CLOSE), (True, SAME)) for kind in part for each in part[kind]
    )
    return sorted(dict.fromkeys(chain(_by_slot(), _by_order(), _by_filler(), written)), key=lambda pair: pair[:2])


def lines() -> str:
    """The pairs as JSON Lines."""
    return "".join(f"{json.dumps(pair._asdict(), ensure_ascii=False)}\n" for pair in pairs())


if __name__ == "__main__":
    sys.stdout.write(lines())
