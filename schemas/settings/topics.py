"""The topics of a deployment, by their roles."""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from schemas.settings.section import Section, is_pattern, matches


def _no_path(name: str) -> str:
    # The broker names directories after topics.
    if name in {".", ".."}:
        raise ValueError("no topic can have this name")
    return name


TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$"), AfterValidator(_no_path)]
TopicPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9._*?-]{1,249}$"), AfterValidator(_no_path)]
"""A topic's name, or a pattern of names: `*` stands for any characters, `?` for one."""

_LEARNING: Final = ("experiments", "feedback", "preferences")


class Topics(Section):
    """The topic of each role. Two deployments on one Kafka cluster need different names."""

    queries: TopicName = Field(default="queries", description="Query events, read by the search flow.")
    results: TopicName = Field(default="results", description="Result events, written by the search flow.")
    dead_letters: TopicName = Field(default="dead-letters", description="Messages that could not be processed.")
    documents: TopicName = Field(default="documents", description="Document events, read by the indexing flow.")
    watermarks: TopicName = "watermarks"
    """Compacted topic: how far each namespace is indexed."""
    rules: TopicName | None = None
    """Compacted topic: rules, read by the search flow; null: there are none."""
    experiments: TopicName | None = None
    """Comparisons of two rankings, written by the search flow; null: there are no experiments."""
    feedback: TopicName | None = Field(default=None, description="Users' actions on results; null: none are read.")
    preferences: TopicName | None = None
    """Preferences of users, one record a query, learnt from feedback; null: nothing is learnt."""
    reply_to: list[TopicPattern] = Field(default=[])
    """More topics for results, which queries choose among; those that fit a pattern with `*` and `?` need not exist at
    the start."""

    @property
    def listed_replies(self) -> list[str]:
        """The topics for results that queries may choose and that must exist: all but the patterns."""
        return [self.results, *(name for name in self.reply_to if not is_pattern(name))]

    @field_validator("reply_to")
    @classmethod
    def _for_results_only(cls, topics: list[str], info: ValidationInfo) -> list[str]:
        if len(set(topics)) < len(topics):
            raise ValueError("a topic is listed twice")
        others = ("queries", "documents", "dead_letters", "watermarks", "rules", *_LEARNING)
        if taken := [role for role in others if info.data.get(role) is not None and matches(info.data[role], topics)]:
            raise ValueError(f"lists the topic of {', '.join(taken)}, or has a pattern that fits it")
        return topics

    def contradictions(self) -> Iterator[str]:
        # A flow that writes to the topic which it reads answers itself for ever.
        roles = {role: name for role, name in self if isinstance(name, str)}
        same = ([role for role in roles if roles[role] == name] for name in dict.fromkeys(roles.values()))
        yield from (f"{' and '.join(each)}: the same topic" for each in same if len(each) > 1)
