"""The export of a job board, whose columns belong together, from `init` through both flows: two columns are a place,
two a range of pay, one is a list, and most texts are German.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.init import Sample
from flows.cli.query import QueryClient, parse_condition
from flows.cli.records import Records
from flows.process.embedded import embedded_settings, start_with_settings

Ask = Callable[..., list[dict[str, Any]]]

HEAD: Final = "Nr;Titel;Breitengrad;Längengrad;Gehalt von;Gehalt bis;Können;Beschreibung"
JOBS: Final = """
J-1;Elektriker;48,8976;9,1918;41000,00;52000,00;VDE|Strom;Sie bauen die Schaltanlagen in den Häusern und prüfen sie.
J-2;Elektrikerin;48,7758;9,1829;38000,00;45000,00;VDE|Strom;Für die Montage von Kabeln ist das Werkzeug bei uns.
J-3;Developer;52,5200;13,4050;70000,00;95000,00;Go|SQL;You write the services of the shop and you test them.
J-4;Köchin;53,5511;9,9937;30000,00;36000,00;Fisch;Sie kochen mit der Köchin und mit dem Koch in der Küche.
J-5;Backend engineer;48,1372;11,5755;62000,00;80000,00;Go|SQL|Linux;This is the team for the services that you like.
J-6;Bäcker;48,7833;9,1833;;;;Das Brot ist frisch, und die Brötchen sind es auch.
"""
STUTTGART: Final = {"lat": 48.7758, "lon": 9.1829}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Ask a query, and get its hits."""
    directory = tmp_path_factory.mktemp("jobs")
    path = directory / "jobs.csv"
    path.write_text(f"{HEAD}{JOBS}")
    records = Records.of(path)
    sections = Sample.of_file(records, path.name).infer().settings()
    off = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}
    settings = embedded_settings(directory / "index", {**sections, **off})
    with start_with_settings(settings, directory / "index") as running:
        source = path.name, records.usable, records.version(), directory, Console(quiet=True)
        ingested = index_once(running, *source)
        assert ingested is not None
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:

            def found(filters: list[str] | None = None, **event: Any) -> list[dict[str, Any]]:
                read = [parse_condition(each).read(running.settings) for each in filters or ()]
                [result] = client.ask([{"query_id": "q", **event, **({"filters": read} if read else {})}], 30)
                assert result["status"] != "invalid", result
                return list(result["results"])

            yield found


def ids(hits: list[dict[str, Any]]) -> list[str]:
    """The ids of hits."""
    return [hit["id"] for hit in hits]


def test_what_is_near_is_found_and_ordered_by_its_distance(ask: Ask) -> None:
    """A result returns with its own columns, and says how far it is."""
    near = '{"field": "location", "op": "geo_radius", "value": {"lat": 48.7758, "lon": 9.1829, "radius_m": 20000}}'
    order = {"geo_distance": {"field": "location", **STUTTGART}, "direction": "asc"}
    hits = ask([near], order_by=order)
    assert ids(hits) == ["J-2", "J-6", "J-1"]
    assert 13_000 < hits[-1]["distance_m"] < 14_000
    assert (hits[-1]["payload"]["Breitengrad"], hits[-1]["payload"]["Längengrad"]) == (48.8976, 9.1918)
    assert "location" not in hits[-1]["payload"]
    [hit] = ask([near, "Nr=J-1"], **{"return": {"fields": ["Breitengrad"]}})
    assert hit["payload"] == {"Breitengrad": 48.8976}


def test_each_value_of_a_list_is_one(ask: Ask) -> None:
    """To filter by, and in results."""
    assert set(ids(ask(["Können=Go"]))) == {"J-3", "J-5"}
    assert ask(["Können=VDE"])[0]["payload"]["Können"] == ["VDE", "Strom"]


def test_a_name_with_a_space_needs_no_quotes(ask: Ask) -> None:
    """In FIELD=VALUE, in filters and in orders."""
    assert ids(ask(["Gehalt bis=45000"])) == ["J-2"]
    above = '{"field": "Gehalt von", "op": "range", "value": {"gte": 60000}}'
    assert ids(ask([above], order_by={"field": "Gehalt bis", "direction": "desc"})) == ["J-3", "J-5"]


def test_pay_is_what_a_limit_means(ask: Ask) -> None:
    """Both ends of its range count: one of 62,000 to 80,000 has pay under 65k."""
    assert ids(ask(text="services under 65k"))[0] == "J-5"
    assert ids(ask(text="services mindestens 90000 Euro Gehalt"))[0] == "J-3"


def test_words_are_found_in_all_inflections(ask: Ask) -> None:
    """Those of the commonest language, which no column names."""
    assert ids(ask(text="Haus"))[0] == "J-1"
