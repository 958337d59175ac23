"""The topics of the roles: a flow never reads what it writes, and each name is one that Kafka takes."""

from itertools import combinations
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.settings import KafkaSettings, Topics
from schemas.settings.delivery import DeliverySettings
from schemas.settings.root import Defaults
from schemas.settings.section import Section

ROLES = ("queries", "results", "dead_letters", "documents", "watermarks")


def refusal(section: type[Section], **values: Any) -> str:
    """The message about a section with these values."""
    with pytest.raises(ValidationError) as caught:
        section.model_validate(values)
    return str(caught.value)


@pytest.mark.parametrize(("one", "other"), list(combinations(ROLES, 2)))
def test_two_roles_have_two_topics(one: str, other: str) -> None:
    """A topic in two roles is refused with both names, also where one of them is the default."""
    said = f"{one} and {other}: the same topic"
    assert said in refusal(Topics, **{one: "t", other: "t"})
    assert said in refusal(Topics, **{one: Topics.model_fields[other].default})


def test_each_topic_of_several_roles_is_named() -> None:
    """Two shared topics are two problems."""
    said = refusal(Topics, queries="a", results="b", dead_letters="a", documents="b", watermarks="a")
    assert "queries and dead_letters and watermarks: the same topic" in said
    assert "results and documents: the same topic" in said


@pytest.mark.parametrize("name", [".", ".."])
def test_what_kafka_takes_for_no_topic_is_refused(name: str) -> None:
    """A name of one point or two is no topic, in whatever role."""
    for role in ROLES:
        assert role in refusal(Topics, **{role: name})
    assert "reply_to.0" in refusal(Topics, reply_to=[name])
    assert Topics(queries="...", results=f"{name}a").queries == "..."


@pytest.mark.parametrize(
    ("section", "name"),
    [
        (KafkaSettings, "group_id"),
        (DeliverySettings, "replica"),
        (Defaults, "namespace"),
        (Defaults, "destination"),
    ],
)
def test_no_name_is_empty(section: type[Section], name: str) -> None:
    """A setting by which something is addressed or told apart is at least one character."""
    said = refusal(section, **{name: ""})
    assert name in said
    assert "at least 1 character" in said
    assert "bootstrap_servers" in refusal(KafkaSettings, bootstrap_servers="")
