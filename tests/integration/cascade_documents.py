"""The documents that the tests of the cascade search."""

from typing import Any, Final

Json = dict[str, Any]


def _kitchen(id_: str, title: str, text: str, **fields: Any) -> Json:
    return {"id": id_, "namespace": "kitchen", "title": title, "text": text, **fields}


KITCHEN: Final = [
    _kitchen("bread", "Bread", "Bake the dough in a hot oven until the crust is brown.", subject="oven"),
    _kitchen("soup", "Soup", "Simmer the leeks and the potatoes in stock, then blend.", subject="stove"),
    _kitchen(
        "cake", "Cake", "Bake the batter in a slow oven; a crust is not wanted.", subject="oven", actor_type="agent"
    ),
    _kitchen(
        "pasta", "Pasta", "Boil water with salt; the sister's recipe wants more salt.", classification="restricted"
    ),
    _kitchen("salad", "Salad", "Wash the lettuce and slice the tomatoes.", labels=["green"]),
    _kitchen("ovens", "Bakers", "A baker in the café told how ovens are built."),
    _kitchen("sum", "Summary", "The oven bakes, the stove simmers.", type="reflection", created_at=1_700_000_000),
    {"id": "note", "namespace": "kitchen", "collection": "notes", "text": "Order more flour for the oven."},
    {"id": "far", "namespace": "kitchen", "destination": "elsewhere", "text": "Another store's oven."},
    {"id": "spy", "namespace": "crew", "text": "The crew's own oven."},
]

NOUNS: Final = (
    *("harbor", "lantern", "violin", "ledger", "copper", "meadow", "signal"),
    *("winter", "bridge", "orchard", "compass", "river", "granite"),
)


def _entry(number: int) -> Json:
    fields: Json = {
        "subject": f"s{number % 3}",
        "actor_type": ("user", "agent")[number % 2],
        "created_at": 1_700_000_000 + 86_400 * (number % 40),
        "when": f"2024-0{1 + number % 6}-11T12:00:00Z",
        "weight": (number % 9) / 4,
        "labels": [f"l{number % 5}", f"m{number % 4}"],
        "place": {"city": ("Ulm", "Ulster", "Bonn")[number % 3]},
        "flag": number % 2 == 0,
        "shelf": 7,
        "importance": number % 6,
        "priority": f"P{1 + number % 4}",
    }
    if number % 10:
        fields["size"] = number % 7
    if number % 11 == 0:
        del fields["created_at"]
    text = f"Entry {number} of the {NOUNS[number % 13]} and the {NOUNS[number % 11]}."
    return {"id": f"log{number}", "namespace": "log", "text": text, **fields}


LOG: Final = [_entry(number) for number in range(230)]
"""More than the longest page, with ties in every field that they are ordered by, and some without it."""


def _seaman(id_: str, created: int | None, **fields: Any) -> Json:
    dated = {} if created is None else {"created_at": created}
    return {"id": id_, "namespace": "crew", "subject": "ada", "text": f"Ada, {id_}.", **dated, **fields}


CREW: Final = [
    _seaman("first", 1_000),
    _seaman("last", 3_000, actor_type="agent"),
    _seaman("tied", 2_000),
    _seaman("tied too", 2_000, labels=["x"]),
    _seaman("undated", None),
    _seaman("undated too", None),
    {**_seaman("bob's", 9_000), "subject": "bob"},
    {**_seaman("another crew's", 9_000), "namespace": "crew2"},
]


def _lamp(id_: str, *labels: str, **fields: Any) -> Json:
    text = f"The lantern {id_} of the harbor."
    return {"id": id_, "namespace": "vault", "subject": "lamp", "text": text, "labels": ["live", *labels], **fields}


LAMPS: Final = [
    _lamp("public", classification="public"),
    _lamp("unclassified"),
    _lamp("internal", classification="internal"),
    _lamp("confidential", classification="confidential"),
    _lamp("restricted", classification="restricted"),
    _lamp("odd", classification="cosmic"),
    _lamp("sealed", "sealed"),
    _lamp("draft", "draft", "reviewed", "signed"),
    _lamp("reviewed", "reviewed"),
    _lamp("signed", "reviewed", "signed"),
    _lamp("secret and signed", "reviewed", "signed", classification="restricted"),
    {**_lamp("dead"), "labels": []},
    {key: each for key, each in _lamp("unlabelled").items() if key != "labels"},
    {**_lamp("a stranger's"), "namespace": "cellar"},
]

VAULT: Final = [
    *LAMPS,
    {**_lamp("minutes"), "namespace": "board"},
    *({**_lamp(f"wire {number}"), "namespace": "wire"} for number in range(6)),
]

PLAIN: Final = [
    {"id": "the", "namespace": "plain", "title": "Of the sea", "text": "the running sailors run"},
    {"id": "runs", "namespace": "plain", "title": "Shore", "text": "a sailor runs to the sea shore"},
    {"id": "shore", "namespace": "plain", "title": "Sea", "text": "no one at the shore sea"},
    {"id": "sister", "namespace": "plain", "text": "s is a letter; http, 12 are words, too"},
]
