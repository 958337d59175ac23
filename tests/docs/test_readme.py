"""The README tells the truth: its picture is the flow, and its examples belong together."""

import json
import re
from pathlib import Path

import yaml

from operators.query.legs import LEG_SPECS
from schemas.query import QueryEvent
from schemas.result import ResultEvent
from schemas.settings import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_query_is_one() -> None:
    """The example query is accepted as it stands."""
    [query] = blocks("json query")
    QueryEvent.model_validate(json.loads(query))


def test_the_answer_holds_to_the_contract() -> None:
    """The example answer is a result event, and answers the example query."""
    query, answer = map(json.loads, blocks("json query") + blocks("json result"))
    ResultEvent.model_validate(answer)
    assert answer["query_id"] == query["query_id"]
    assert answer["metadata"] == query["metadata"]


def test_the_configuration_loads(tmp_path: Path) -> None:
    """The example configuration is enough to start with."""
    (example,) = blocks("yaml")
    assert yaml.safe_load(example)
    path = tmp_path / "rankstream.yaml"
    path.write_text(example)
    assert load(path).qdrant.url == "http://localhost:6333"


def test_the_picture_has_the_stages_of_the_flow() -> None:
    """The picture of the search flow is that of its module, and shows steps of it in their order."""
    flow = (ROOT / "flows" / "search.py").read_text(encoding="utf-8")
    picture = TEXT[TEXT.index("queries ▶") : TEXT.index("documents ▶")].rstrip()
    assert picture in flow
    steps = re.findall(r"(?m)^    \w+ = \w+\(\"(\w+)\"", flow)
    words = re.split("[^a-z ]+", re.sub("results.*|watermarks|queries", "", picture))
    shown = {word.strip().replace(" ", "_") for word in words} - {""}
    legs = {word for word in shown if word.startswith("leg_")}
    assert legs == {f"leg_{name}" for name in LEG_SPECS if name in {"vector", "keyword", "structured"}}
    assert shown - legs <= {*steps}
    chain = "decode admit lookup embed semantic_lookup passing_by fuse texts rerank publish"
    assert [step for step in steps if step in shown] == chain.split()
