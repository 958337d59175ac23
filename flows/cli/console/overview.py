"""The first page: what is indexed, example queries from it, and the health of each backend."""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from flows.assembly.clients import InProcess
from flows.assembly.collections import AskQdrant, open_client, survey_collections
from flows.cli.check import Finding
from flows.cli.check.command import CHECKS, CheckPart
from flows.cli.console.columns import abbreviate, value_text
from operators.collections.requirements import Surveyed
from operators.mapping.own_names import OwnNames
from schemas.document import DESTINATION, LANG, NAMESPACE, VERSION
from schemas.errors import BackendError, ConfigError, IndexInUse
from schemas.settings import Settings

_TIMEOUT: Final = 5.0
_SAMPLE: Final = 200
"""Documents that are read for the fields, their examples and the example queries."""

_NAMESPACES: Final = 200
_EXAMPLES: Final = 3
_QUERIES: Final = 6
_SHORT: Final = 80

_KEEP: Final = 10.0
"""Seconds for which the health is not asked for again."""


class Overview:
    """The index of these settings, as far as it can be read.

    `own_broker`: Kafka is a part of this process, and needs no check.
    """

    def __init__(self, settings: Settings, in_process: InProcess, *, own_broker: bool = False) -> None:
        self._settings = settings
        self._in_process = in_process
        self._skipped = {"kafka", "clock"} if own_broker else {"clock"}
        self._lock = threading.Lock()
        self._health: tuple[float, list[dict[str, Any]]] | None = None
        self.namespaces: Sequence[str] = [settings.defaults.namespace]

    def describe(self) -> dict[str, Any]:
        """Every collection with its namespaces, fields and example queries; one that can't be read has its error."""
        try:
            surveyed = survey_collections(self._settings, self._in_process, _TIMEOUT)
            with open_client(self._settings, self._in_process) as ask:
                found = [self._collection(ask, each) for each in surveyed]
        except IndexInUse:  # Searches alone see it.
            return {"collections": [], "examples": [], "error": None, "in_use": True}
        except (ConfigError, BackendError) as error:
            return {"collections": [], "examples": [], "error": str(error)}
        names = [each["name"] for one in found for each in one["namespaces"]]
        self.namespaces = list(dict.fromkeys([*names, self._settings.defaults.namespace]))
        examples = [example for one in found for example in one.pop("examples")]
        return {"collections": found, "examples": examples[:_QUERIES], "error": None}

    def _collection(self, ask: AskQdrant, surveyed: Surveyed) -> dict[str, Any]:
        name, info = surveyed.physical, surveyed.info
        destinations = self._settings.qdrant.destinations.items()
        of = sorted(destination for destination, collection in destinations if collection == surveyed.name)
        view: dict[str, Any] = {"name": surveyed.name, "points": None, "last": None, "error": None, "destinations": of}
        view |= {"namespaces": [], "fields": [], "languages": [], "examples": []}
        if info is None:
            return view | {"error": str(surveyed.error or "the collection isn't there")}
        try:
            page = ask(lambda client: client.scroll(name, limit=_SAMPLE, timeout=_TIMEOUT), _TIMEOUT)
        except (BackendError, TimeoutError) as error:
            return view | {"error": str(error) or "no answer in time"}
        payloads = [record.payload for record in page.records]
        languages = Counter(str(value) for payload in payloads if (value := payload.get(LANG))).most_common()
        view["languages"] = [{"name": name, "count": count} for name, count in languages]
        own = OwnNames(self._settings.documents.columns).own
        fields = [{**each, "name": own(each["name"])} for each in _fields(payloads, info.indexes)]
        view |= {"points": info.points, "fields": fields, "sampled": len(payloads)}
        with suppress(BackendError, TimeoutError):
            facet = ask(lambda client: client.facet(name, NAMESPACE, limit=_NAMESPACES, timeout=_TIMEOUT), _TIMEOUT)
            ranked = sorted(facet.counts.items(), key=lambda each: (-each[1], str(each[0])))
            view["namespaces"] = [{"name": str(each), "count": count} for each, count in ranked]
        with suppress(BackendError, TimeoutError):
            newest = {"key": VERSION, "direction": "desc"}
            last = ask(lambda client: client.scroll(name, limit=1, order_by=newest, timeout=_TIMEOUT), _TIMEOUT)
            view["last"] = next((record.payload.get(VERSION) for record in last.records), None)
        return view | {"examples": _queries(payloads)}

    def health(self) -> list[dict[str, Any]]:
        """A line for each backend: ok, warning or error, what is so, and what to do."""
        with self._lock:
            if self._health is None or time.monotonic() - self._health[0] > _KEEP:
                lines = [self._ask(part) for part in CHECKS if part not in self._skipped]
                self._health = time.monotonic(), lines
            return self._health[1]

    def _ask(self, part: CheckPart) -> dict[str, Any]:
        """The worst finding of a part."""
        try:
            findings = list(CHECKS[part](self._settings, self._in_process))
        except (ConfigError, BackendError, OSError) as error:
            findings = [Finding("error", "", str(error))]
        worst = min(findings, key=lambda each: ("error", "warning", "ok").index(each.level))
        return asdict(worst) | {"subject": part.value}


def _fields(payloads: Sequence[Mapping[str, Any]], indexes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each field of the documents: the share that has it, if it is indexed, and examples."""
    counts = Counter(name for payload in payloads for name in payload if not name.startswith("_"))
    return [
        {
            "name": name,
            "share": count / len(payloads),
            "indexed": name in indexes,
            "examples": _examples(payload.get(name) for payload in payloads),
        }
        for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        if name != DESTINATION
    ]


def _examples(values: Iterable[Any]) -> list[str]:
    texts = filter(None, map(value_text, values))
    return list(dict.fromkeys(abbreviate(text, _SHORT) for text in texts))[:_EXAMPLES]


def _queries(payloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Queries that this index answers: the first words of titles, from all over the sample."""
    found = []
    for payload in payloads[:: max(1, len(payloads) // _QUERIES)]:
        title = payload.get("title")
        if isinstance(title, str) and (words := " ".join(re.findall(r"[\w.'-]+", title)[:4])):
            found.append({"text": words, "namespace": payload.get(NAMESPACE)})
    return list({(each["text"], each["namespace"]): each for each in found}.values())[:_QUERIES]
