"""Other names of collections."""

from collections.abc import Callable, Mapping
from typing import Any

from operators.clients.qdrant_edge.shards import Refusal
from tests.qdrant_server.refusals import bad_request, no_collection, not_found, reading


class Aliases:
    """Which collection each alias means; a change of several is seen whole."""

    def __init__(self) -> None:
        self._targets: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._targets

    def target(self, name: str) -> str:
        """The collection that the name means, itself where it is no alias."""
        return self._targets.get(name, name)

    def of(self, collection: str | None = None) -> list[dict[str, str]]:
        """The aliases of this collection, or of all, as Qdrant writes them."""
        return [
            {"alias_name": alias, "collection_name": target}
            for alias, target in self._targets.items()
            if collection in (None, target)
        ]

    def change(self, body: Mapping[str, Any], exists: Callable[[str], bool]) -> None:
        """`POST /collections/aliases`: one action after the other, those before a refused one stay; raises Refusal."""
        with reading():
            actions = [pair for action in body["actions"] for pair in action.items()]
            for kind, action in actions:
                self._act(kind, action, exists)

    def forget(self, collection: str) -> None:
        """A dropped collection takes its aliases with it."""
        self._targets = {alias: target for alias, target in self._targets.items() if target != collection}

    def _act(self, kind: str, action: Mapping[str, Any], exists: Callable[[str], bool]) -> None:
        match kind:
            case "create_alias":
                alias, target = action["alias_name"], action["collection_name"]
                if not exists(target):
                    raise no_collection(target)
                if exists(alias):
                    raise Refusal(409, f"Wrong input: Collection `{alias}` already exists!")
                self._targets[alias] = target
            case "delete_alias":
                self._targets.pop(action["alias_name"], None)
            case "rename_alias":
                old, new = action["old_alias_name"], action["new_alias_name"]
                if old not in self._targets:
                    raise not_found(f"Alias {old} does not exists!")
                self._targets[new] = self._targets.pop(old)
            case _:
                raise bad_request("data did not match any variant of untagged enum AliasOperations")
