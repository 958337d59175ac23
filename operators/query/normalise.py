"""Normalise: an event becomes its canonical query, with its source, what that source may see, and how it is ranked."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from operators.access.firewall import access_filter
from operators.access.policy import identify, judge
from operators.caching.keys import Scope, binding, is_readable
from operators.query.canonical import Query, address_of, canonicalise
from operators.query.collection import Destinations
from operators.query.cursor import After, CursorCodec
from operators.query.lookup import MOST_SEEN
from operators.query.plan import Planner, RankingPlan
from operators.wire.message import Headers
from operators.wire.reply import Replies
from schemas.errors import DeadLetterClass, FieldError, InputError
from schemas.query import QueryEvent, QueryShape
from schemas.settings import Defaults, FirewallSettings, PolicySettings, SourcePolicy
from schemas.settings.policies import OPERATION
from schemas.settings.ranking import BALANCED

_UNSAID: Final = {"recipe": None, "overrides": None, "reflection_boost": None, "cursor": None, "group_by": None}


class Normalised(NamedTuple):
    """A query, the scope of its cached answers, and warnings. The plan of a query that is denied is its profile's."""

    query: Query
    scope: Scope
    warnings: list[str]


@dataclass(frozen=True)
class Normaliser:
    """Normalises events under one configuration."""

    destinations: Destinations
    defaults: Defaults
    policies: PolicySettings
    firewall: FirewallSettings
    planner: Planner
    cursors: CursorCodec
    replies: Replies
    config_hash: str

    def __call__(self, event: QueryEvent, headers: Headers, topic: str, sent: float) -> Normalised:
        """The event's query; `sent` is its clock unless it has one, in Unix seconds.

        Raises InputError: `invalid`, or `cursor_invalid` for a cursor that isn't this query's.
        """
        # Before a denial, which is answered on the topic that the query names.
        reply = self.replies.choose(event.reply_to, headers, event.source, topic)
        source = identify(self.policies.identity, event.source, headers, topic)
        policy = self.policies.policy_for(source)
        warnings: list[str] = []
        destination, namespace = address_of(event, self.defaults.destination, self.defaults.namespace)
        said, part, profile = event, event.collection, self.planner.profile(event)
        denial = judge(policy, self.firewall, destination, part, namespace, OPERATION, profile)
        if denial is not None:
            # Before anything that depends on what is configured: a refusal mustn't tell what there is.
            event = event.model_copy(update=_UNSAID)
        cursor = self.cursors.read(event.cursor) if event.cursor is not None else None
        if cursor is not None:
            if event.now not in {None, cursor.now}:
                raise InputError(DeadLetterClass.CURSOR_INVALID, "cursor: it continues a query of another now")
            # A later page is ranked at the moment of the first, so that no documents change places in between.
            sent = cursor.now
            if isinstance(cursor.position, After) and cursor.position.seen > MOST_SEEN:
                raise InputError(DeadLetterClass.CURSOR_INVALID, f"cursor: beyond {MOST_SEEN} equals in the order")
        collection = self.destinations.collection(destination, part) if denial is None else ""
        plan = self.planner.plan(event, destination, warnings, policy)
        query = canonicalise(said, plan, source, destination, namespace, sent, cursor, reply)
        if query.shape is not QueryShape.SEARCH and plan.grouping is not None:
            if event.group_by is not None:
                raise FieldError("group_by", "only a search has groups, by text, vector or reflections", event.group_by)
            plan = replace(plan, grouping=None)
        scope = self._scope(event, query, plan, policy)
        if cursor is not None and cursor.query != binding(scope, query.text, event.vector):
            if not is_readable(cursor.query):
                raise InputError(DeadLetterClass.CURSOR_EXPIRED, "cursor: of another release; ask without it")
            raise InputError(DeadLetterClass.CURSOR_INVALID, "cursor: it continues another query")
        visible = access_filter(self.firewall, policy, namespace) if denial is None else None
        query = replace(query, plan=plan, collection=collection, denial=denial, access_filter=visible)
        return Normalised(query, scope, warnings)

    def _scope(self, event: QueryEvent, query: Query, plan: RankingPlan, policy: SourcePolicy) -> Scope:
        # Those that a recipe makes nothing of bring a warning with them, as an unknown profile and a limit below 0 do.
        wishes = query.understood or event.understood
        resolved = {
            "source": query.source,
            "destination": query.destination,
            "namespace": query.namespace,
            "profile": event.profile if event.profile is not None else BALANCED,
            "limit": query.limit if event.limit >= 0 else event.limit,
            "recipe": plan.recipe.name,
            "overrides": event.overrides or None,
            "understood": [each.model_dump(mode="json") for each in wishes] if wishes else None,
            "returned": plan.returned.model_dump(mode="json") if plan.returned is not None else None,
        }
        return Scope.of(
            event,
            resolved,
            recipe_hash=f"{plan.recipe.name} {plan.recipe.hash}",
            config_hash=self.config_hash,
            policy_hash=hashlib.sha256(f"{policy.hash} {self._firewall}".encode()).hexdigest(),
        )

    @cached_property
    def _firewall(self) -> str:
        return self.firewall.model_dump_json()
