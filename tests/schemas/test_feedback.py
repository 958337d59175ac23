"""Feedback events beside User Behavior Insights' own JSON Schemas."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from schemas.contracts import all_contracts
from schemas.errors import InputError
from schemas.feedback import Action, read_action
from tests.docs.pages import DOCS, blocks

UBI: Final = Path(__file__).parent.parent / "data" / "ubi"
SCHEMAS: Final = {
    "1.0.0": "b4acf22c006fc67272263bc57950e3a1c8646dabc1746a54b7acbe4d700836e2",
    "1.1.0": "f5b3775a92f8349cfad4e72592c8de5b1048564f357cbbc9a62543a5c8a301b2",
    "1.2.0": "b746a43100a51508b999ecbc9bf59c90664107545b5d3998bfbcc458397a45d1",
    "1.3.0": "047322dea1dad6a24702587476046e1441037f43b4bb64d2bf64e6147496dd21",
}
"""Version -> SHA-256 of the schema of events as it is published."""
EXAMPLES: Final = [
    json.loads(block.text) for block in blocks(DOCS / "reference" / "events.md") if block.info == "json ubi"
]
CLICK: Final[dict[str, Any]] = EXAMPLES[0]


@pytest.mark.parametrize("version", SCHEMAS)
def test_the_schemas_of_ubi_are_those_that_are_published(version: str) -> None:
    """No byte of them is ours."""
    content = (UBI / f"event-{version}.schema.json").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SCHEMAS[version]


def valid(event: dict[str, Any], version: str) -> bool:
    """True if UBI's own schema of that version takes the event."""
    schema = json.loads((UBI / f"event-{version}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return bool(jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).is_valid(event))


@pytest.mark.parametrize("version", SCHEMAS)
def test_ubi_takes_what_the_page_tells_clients_to_send(version: str) -> None:
    """The page's event with our token is one of UBI; before 1.3.0 a position was an object, which nobody reads here."""
    attributes = CLICK["event_attributes"]
    position = {"ordinal": 1} if version == "1.3.0" else {"ordinal": {"index": 1}}
    event = {**CLICK, "event_attributes": {**attributes, "position": position}}
    assert valid(event, version)
    assert not valid({**event, "event_attributes": {"token": attributes["token"]}}, version)
    assert read_action(event) == Action(attributes["token"], "open_result")


def test_the_names_that_ubi_lists_are_taken() -> None:
    """By its own schemas a name that they list is two of the alternatives, of which one may hold: we take them all."""
    for name in ("click", "add_to_cart", "purchase"):
        assert not valid({**CLICK, "action_name": name}, "1.3.0")
        assert read_action({**CLICK, "action_name": name}) == Action(CLICK["event_attributes"]["token"], name)


def test_more_than_ubi_asks_for_is_not_asked_for() -> None:
    """An event of a front end that leaves out what UBI requires, and nothing of ours, is a click all the same."""
    event = {"action_name": "open_result", "event_attributes": {"token": "t"}}
    assert not valid(event, "1.3.0")
    assert read_action(event) == Action("t", "open_result")


def test_an_event_without_a_token_names_no_result() -> None:
    """UBI's other events pass by, and a result that came into view is no preference; ours always has a token."""
    assert read_action({"action_name": "page_exit"}) is None
    assert read_action({**CLICK, "action_name": "impression"}) is None
    with pytest.raises(InputError, match="token: missing"):
        read_action({"action": "click"})


def test_the_contract_has_our_own_form() -> None:
    """A time is a text or a number, and no other field is taken."""
    schema = all_contracts()["feedback"]
    assert schema["required"] == ["token", "action"]
    check = jsonschema.Draft202012Validator(schema)
    assert check.is_valid({"token": "t", "action": "click", "at": "2026-01-31T08:00:07Z"})
    assert not check.is_valid({"token": "t", "action": "click", "session_id": "s"})
