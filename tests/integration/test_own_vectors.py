"""Documents that bring their own vectors have no token vectors in the index: what late interaction makes of them."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.kafka.broker import Broker
from tests.integration.deployment import Deployment
from tests.integration.searching import asking, searching

RANDOM = random.Random(17)
SUBJECTS = ("harbor", "lantern", "ferry", "keeper", "garden", "engine", "letter", "winter")
WARNING = "no_token_vectors"
OFF = {"rerank": False}
LATE = 60

Documents = Sequence[dict[str, Any]]
Searching = Callable[..., Any]


def text(number: int, words: int) -> str:
    """A text of so many words, most of them of other documents too."""
    return " ".join([SUBJECTS[number % len(SUBJECTS)], *RANDOM.choices(SUBJECTS, k=words - 1)])


def bringing(count: int, words: int) -> list[dict[str, Any]]:
    """Documents with vectors of their own."""
    return [
        {
            "id": f"own{number}",
            "namespace": "red",
            "text": text(number, words),
            "vector": [RANDOM.gauss(0, 1) for _ in range(384)],
        }
        for number in range(count)
    ]


def embedded(count: int) -> list[dict[str, Any]]:
    """Documents whose vectors, and token vectors, the embedder makes."""
    return [{"id": f"made{number}", "namespace": "red", "text": text(number, 12)} for number in range(count)]


@pytest.fixture
def over(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Searching:
    """The search flow over documents, with such a section `rerank`."""

    @contextmanager
    def run(documents: Documents, **rerank: Any) -> Iterator[Deployment]:
        section = {"kind": "late_interaction", "timeout": 20, **rerank}
        with searching(broker, tmp_path, topic_names, documents, {"rerank": section}) as deployment:
            yield deployment

    return run


def order(result: dict[str, Any]) -> list[tuple[str, float]]:
    """The results with their scores."""
    return [(hit["id"], hit["score"]) for hit in result["results"]]


def unranked_in_plain_words(result: dict[str, Any], fused: dict[str, Any]) -> None:
    """A complete answer in the order of the legs, with one warning that says why."""
    assert (result["status"], result["degraded"]) == ("ok", [])
    assert order(result) == order(fused)
    assert "reranked" not in result
    (warning,) = result["warnings"]
    assert warning.startswith(f"{WARNING}: ")


def test_documents_without_token_vectors_are_answered_in_the_legs_order(over: Searching) -> None:
    """A hundred queries at once about long documents with vectors of their own: each answer is complete, in the order
    of the legs, and says that it was not reranked and why.
    """
    questions = [f"{RANDOM.choice(SUBJECTS)} {RANDOM.choice(SUBJECTS)} {number}" for number in range(100)]
    with over(bringing(60, 250)) as deployment:
        events = [
            {"query_id": f"{mode}{number}", "namespace": "red", "text": question, **asked}
            for number, question in enumerate(questions)
            for mode, asked in (("fused", OFF), ("asked", {}))
        ]
        deployment.ask(events)
        answers = {each.value["query_id"]: each.value for each in deployment.output_records(200)}
    for number in range(100):
        assert answers[f"fused{number}"]["warnings"] == []
        unranked_in_plain_words(answers[f"asked{number}"], answers[f"fused{number}"])


def test_no_document_is_judged_that_was_not_read(over: Searching) -> None:
    """Among documents with token vectors, one without leaves all of them in the order of the legs."""
    with over([*embedded(12), *bringing(1, 12)]) as deployment:
        ask = asking(deployment, "red")
        event = {"text": "harbor lantern ferry", "limit": 20}
        fused, mixed = ask({**event, **OFF}), ask(event)
        alone = ask({**event, "filters": [{"field": "id", "op": "eq", "value": "made1"}]})
    assert len(mixed["results"]) == 13
    unranked_in_plain_words(mixed, fused)
    assert (alone["status"], alone["warnings"]) == ("ok", [])


def test_on_the_fly_what_is_asked_for_is_computed(over: Searching) -> None:
    """With `rerank.on_the_fly` documents of either kind are reranked together, and nothing is said of it."""
    with over([*embedded(6), *bringing(6, 12)], on_the_fly=True) as deployment:
        result = asking(deployment, "red")({"text": "harbor lantern ferry", "limit": 20})
    assert (result["status"], result["warnings"], result["reranked"]) == ("ok", [], True)
    assert len(result["results"]) == 12
    assert {id_[:3] for id_, _ in order(result)[:6]} == {"own", "mad"}


def test_on_the_fly_time_runs_out_for_its_own_query_alone(over: Searching) -> None:
    """Documents that take too long leave their query in the order of the legs; queries about others are reranked
    meanwhile; and what was computed is kept, so that a repeated query is reranked in the end.
    """
    others = [{**document, "id": f"blue{document['id']}", "namespace": "blue"} for document in embedded(12)]
    with over([*bringing(2000, 250), *others], on_the_fly=True, timeout=6) as deployment:
        events = [
            {"query_id": f"{kind}{number}", "namespace": namespace, "text": f"{SUBJECTS[number % 8]} {number}"}
            for kind, namespace, count in (("late", "red", LATE), ("quick", "blue", 20))
            for number in range(count)
        ]
        deployment.ask(events)
        answers = {each.value["query_id"]: each.value for each in deployment.output_records(len(events))}
        late = [answers[f"late{number}"] for number in range(LATE)]
        lost = [answer["degraded"] for answer in late if answer["status"] != "ok"]
        # The first may have been in time: all of them together read half a million tokens.
        assert lost
        assert all(degraded == [{"stage": "rerank", "reason": "timeout"}] for degraded in lost)
        quick = [answers[f"quick{number}"] for number in range(20)]
        assert [(answer["status"], answer.get("reranked")) for answer in quick] == [("ok", True)] * 20
        asked = 0
        while True:
            asked += 1
            deployment.ask([{"query_id": f"again{asked}", "namespace": "red", "text": "harbor lantern ferry"}])
            ended = deployment.output_records(len(events) + asked, settled=False)
            if any(each.value["status"] == "ok" for each in ended if each.value["query_id"].startswith("again")):
                break
            assert asked < 60
