"""Feedback events: the actions of users on results of experiments, in a form of our own or as User Behavior Insights.

User Behavior Insights (UBI, github.com/o19s/ubi) is the form in which search front ends report events. An event with an
`action_name` is one of these, by schema 1.0.0 to 1.3.0. Ours is its `event_attributes.token`: the schemas allow further
attributes. All else in it is left unread, the ids of clients, sessions and users among it.
"""

from typing import Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field

from schemas.event import check_version, validate
from schemas.fields import Documented, Name, SchemaVersion, Strict, Timestamp

MAX_FEEDBACK_PARTS: Final = 1000
"""Keys, objects and arrays of an event: those of UBI have attributes of the application's own."""

UNCOUNTED: Final = "impression"
"""UBI's action for a result that came into view, which says nothing of preference."""

# That of the longest ids, whose characters are all escaped, is nearly as long.
Token = Annotated[str, Field(min_length=1, max_length=40_000)]


class FeedbackEvent(Strict):
    """A user's action on a result of an experiment: a message of the topic `feedback`, keyed by query_id."""

    schema_version: SchemaVersion = 1
    token: Token = Field(description="The result's field `token`, unchanged.")
    action: Name = Field(description="Name of the action, such as click or add_to_cart.")
    at: Timestamp | None = Field(default=None, description="Time of the action at the client. Kafka's time counts.")


class UbiAttributes(Documented):
    """The attribute of an event that names the result; others are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)

    token: Token | None = None


class UbiEvent(Documented):
    """An event as User Behavior Insights has it, as far as it is read."""

    model_config = ConfigDict(frozen=True, strict=True)

    action_name: Name
    event_attributes: UbiAttributes = UbiAttributes()


class Action(NamedTuple):
    """An action, and the token of the result that it was on."""

    token: str
    name: str


def read_action(event: dict[str, Any]) -> Action | None:
    """The action that an event tells of; None for a UBI event without a token, or of a result that came into view.

    Raises InputError.
    """
    if "action_name" in event:
        ubi = validate(UbiEvent, event)
        token, name = ubi.event_attributes.token, ubi.action_name
        return Action(token, name) if token is not None and name != UNCOUNTED else None
    check_version(event)
    own = validate(FeedbackEvent, event)
    return Action(own.token, own.action)
