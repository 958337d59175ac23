"""`python -m bench scale`: each dimension varies one thing, and its report has figures, exponents and a picture."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from bench.dimensions import DIMENSIONS, Dimension, Setup
from bench.report import scaling_tables
from bench.scaling import MEMORY, Value, costs, plot, quick, report
from bench.stubs import TENANT, Collection
from bench.subject import Surroundings
from schemas.settings import KafkaSettings
from tests.bench.test_figures import measurement
from tests.bench.test_flow import bench, refused

CLIENT = "librdkafka"
PARTITIONS = DIMENSIONS["partitions"]


def measured(value: int, power: float, rounds: int = 3) -> Value:
    """A value whose queries cost so many ms to a power, and whose process has a hundred MB."""
    made = Value(PARTITIONS.setup(CLIENT, value, Path()))
    for number in range(1, rounds + 1):
        made.outcome.rates.setdefault(PARTITIONS.rate, []).append(measurement([5.0] * 100, cpu=0.1 * value**power))
        made.outcome.burst.append(measurement([5.0] * 100, cpu=0.1 * number))
        made.memory_mb.append(100.0 + number)
    return made


def config(name: str, value: int, directory: Path) -> dict[str, object]:
    """The settings that the subject of a value is started with."""
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    around = Surroundings(kafka, "http://127.0.0.1:2", "http://127.0.0.1:3", "http://127.0.0.1:4", "", directory)
    DIMENSIONS[name].setup(CLIENT, value, directory).subject.launch(around)
    read: dict[str, object] = orjson.loads((directory / "rankstream.yaml").read_bytes())
    return read


@pytest.mark.parametrize("dimension", DIMENSIONS.values(), ids=list(DIMENSIONS))
def test_a_dimension_has_ascending_values(dimension: Dimension) -> None:
    """Two at least: an index is written on from that of the value before. A quick run has the two least."""
    assert len(dimension.values) >= 2
    assert all(less < more for less, more in pairwise(dimension.values))
    assert quick(dimension).values == dimension.values[:2]
    assert quick(dimension).burst < dimension.burst


def test_only_the_dimension_varies(tmp_path: Path) -> None:
    """The settings of two values differ in one key, and in the port."""
    for name, [section, key] in {
        "candidates": ("profiles", "balanced"),
        "text": ("qdrant", "destinations"),
        "documents": ("qdrant", "path"),
    }.items():
        less, more = (config(name, value, tmp_path) for value in DIMENSIONS[name].values[:2])
        for each in (less, more):
            assert isinstance(each["telemetry"], dict)
            each["telemetry"].pop("port")
            changed = each[section]
            assert isinstance(changed, dict)
            changed.pop(key)
        assert less == more


def test_the_stub_is_asked_for_the_texts_of_the_dimension(tmp_path: Path) -> None:
    """By the collection's name."""
    index = config("text", 2000, tmp_path)["qdrant"]
    assert isinstance(index, dict)
    assert Collection.named(index["destinations"]["default"]) == Collection(characters=2000)


def test_namespaces_that_are_asked_have_watermarks() -> None:
    """Of as many as the value says, in the order in which they are asked."""
    setup = DIMENSIONS["namespaces"].setup(CLIENT, 10, Path())
    assert setup.watermarks == [f"{TENANT}{number}" for number in range(10)]
    assert setup.phase(100).namespaces == 10
    assert PARTITIONS.setup(CLIENT, 4, Path()).watermarks == []


def test_a_simulated_replica_gets_its_part_of_the_load_and_of_the_partitions() -> None:
    """With a warm-up as long as that of one alone."""
    one, many = (DIMENSIONS["simulated-replicas"].setup(CLIENT, value, Path()) for value in (1, 16))
    assert (many.partitions, many.replicas) == ((one.partitions or 0) // 16, 1)
    assert (many.part(1600, 100.0).count, many.part(1600, 100.0).rate) == (100, 6.25)
    assert many.part(1600).rate is None
    assert many.phase(500, 200.0) == one.phase(500, 200.0)
    assert Setup(PARTITIONS.setup(CLIENT, 4, Path()).subject, share=64).part(10).count == 1


def test_a_report_says_which_figure_grows_faster_than_linear() -> None:
    """Each load's CPU and the memory are judged by themselves, and have a row each."""
    found = report(PARTITIONS, {value: measured(value, 1.5) for value in PARTITIONS.values})
    assert costs(found["rows"])["50/s"] == {
        value: pytest.approx([value**1.5] * 3, abs=0.001) for value in PARTITIONS.values
    }
    assert {name: each["superlinear"] for name, each in found["growth"].items()} == {
        "50/s": True,
        "burst": False,
        MEMORY: False,
    }
    assert found["growth"]["50/s"]["cost"]["estimate"] == pytest.approx(1.5)
    assert (found["rounds"], found["not_ok"]) == (3, 0)
    assert [each.row_count for each in scaling_tables(found)] == [len(PARTITIONS.values), 3]


def test_a_report_counts_queries_without_a_full_answer() -> None:
    """Of every value and load: a query that is lost or degraded costs less than others."""
    lossy = measured(4, 1.0)
    lossy.outcome.burst[0] = measurement([5.0, None])
    lossy.outcome.rates[PARTITIONS.rate][0] = replace(measurement([5.0] * 3), statuses={"ok": 1, "partial": 2})
    assert report(PARTITIONS, {4: lossy, 16: measured(16, 1.0)})["not_ok"] == 3


def test_growth_has_a_picture(tmp_path: Path) -> None:
    """A PNG, of one round as well."""
    for rounds in (1, 3):
        plot(report(PARTITIONS, {value: measured(value, 1.0, rounds) for value in (4, 16)}), tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arguments", [["--dimension", "weather"], ["--rounds", "0"], ["--client", "java"]])
def test_senseless_plans_are_usage_errors(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything starts."""
    assert arguments[0] in refused(monkeypatch, capsys, "scale", *arguments)


@pytest.mark.nightly
@pytest.mark.usefixtures("broker_tools", "machine")
def test_every_query_is_answered_along_each_dimension(tmp_path: Path) -> None:
    """By the flow on stubs and on the engine in the process; the figures and the pictures are there."""
    done = bench("scale", "--quick", "--rounds", "1", "--json", "--plot", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for found, dimension in zip(orjson.loads(done.stdout)["dimensions"], DIMENSIONS.values(), strict=True):
        assert found["dimension"] == dimension.name
        assert [row["value"] for row in found["rows"]] == list(dimension.values[:2])
        for row in found["rows"]:
            (rate,) = row["rates"]
            assert {*rate["statuses"], *row["burst"]["statuses"]} == {"ok"}
            assert row["memory_mb"]["median"] > 0
        assert (tmp_path / f"growth-{dimension.name}.png").stat().st_size
