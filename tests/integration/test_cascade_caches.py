"""The caches, through the running flow: what is kept, whom it serves, and when it ends."""

import math
import time

import httpx
import pytest

from tests.integration.cascade import BATCH, Json, System, ids
from tests.integration.deployment import wait_until

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

LARDER = [
    {"id": f"jar{number}", "namespace": "larder", "text": f"A jar of {fruit} from the shelf."}
    for number, fruit in enumerate(("plums", "cherries", "quinces", "pears"))
]

CODES = [
    {"id": code, "namespace": "larder", "text": text}
    for code, text in (
        ("E1234", "Error code E1234: the water filter is clogged."),
        ("E1235", "Error code E1235: the door is open."),
        ("2023-118", "Invoice 2023-118 is due on 1 May."),
        ("2023-119", "Invoice 2023-119 is due on 9 May."),
    )
]

EXACT, SEMANTIC, COMPUTED = "exact_cache", "semantic_cache", "computed"


@pytest.fixture(scope="module")
def larder(kitchen: System) -> System:
    """The kitchen with LARDER in a namespace of its own."""
    kitchen.write([*LARDER, *CODES])
    return kitchen


def stage(answer: Json) -> str:
    """The cache that an answer came from, or `computed`."""
    return str(answer["retrieval_stage"]) if answer["retrieval_stage"] in {EXACT, SEMANTIC} else COMPUTED


def stages(system: System, *events: Json) -> list[str]:
    """The origin of these queries' answers in the larder, asked one after the other: a cache, or `computed`."""
    return [stage(system.ask({"namespace": "larder", **event})) for event in events]


def turned(degrees: float) -> list[float]:
    """A vector that is turned so far from the first axis."""
    angle = math.radians(degrees)
    return [math.cos(angle), math.sin(angle)] + [0.0] * 382


def test_the_same_query_is_answered_from_the_cache(larder: System) -> None:
    """The same answer with the provenance of who computed it; id, metadata and trace are the new query's."""
    event = {"namespace": "larder", "text": "jar of plums"}
    trace = "0af7651916cd43dd8448eb211c80319c"
    (computed,) = larder.together([{**event, "metadata": {"mine": 1}}])
    larder.qdrant.forget()
    headers = [("traceparent", f"00-{trace}-b7ad6b7169203331-01".encode())]
    (served,) = larder.together([{**event, "metadata": {"mine": 2}, "timeout_ms": 20_000}], headers)
    own = {"query_id", "result_id", "metadata", "retrieval_stage"}
    assert larder.qdrant.asked == []
    assert (stage(computed.value), stage(served.value)) == (COMPUTED, EXACT)
    assert {key: each for key, each in served.value.items() if key not in own} == {
        key: each for key, each in computed.value.items() if key not in own
    }
    assert all(served.value[name] != computed.value[name] for name in own)
    assert served.value["metadata"] == {"mine": 2}
    assert trace in served.headers["traceparent"].decode()


def test_whatever_can_change_the_answer_is_another_query(larder: System) -> None:
    """No field that matters can be changed without the answer being computed anew."""
    event: Json = {"text": "jar of quinces", "now": 1_700_000_000}
    vector = [1.0] + [0.0] * 383
    changes: list[Json] = [
        {"text": "jar of pears"},
        {"text": "Jar of quinces", "filters": [{"field": "id", "op": "exists", "value": True}]},
        {"namespace": "kitchen"},
        {"source": "empty"},
        {"destination": "elsewhere"},
        {"collection": "notes"},
        {"profile": "deep"},
        {"profile": "balanced"},
        {"profile": "turbo"},
        {"subject": "x"},
        {"actor_type": "x"},
        {"vector": vector},
        {"vector": [-1.0] + [0.0] * 383},
        {"limit": 3},
        {"recipe": "rrf"},
        {"overrides": {"score": {"alpha": 0.4}}},
        {"rerank": False},
        {"include_reflections": False},
        {"reflections_only": True},
        {"explain": True},
        {"debug": True},
        {"record": True},
        {"now": 1_700_000_001},
        {"now": None},
        {"now": None, "current_cycle": 3},
    ]
    first, *others = stages(larder, event, *({**event, **change} for change in changes))
    assert first == COMPUTED
    # What a missing profile means is the same query; all else isn't.
    same = [change for change, found in zip(changes, others, strict=True) if found != COMPUTED]
    assert same == [{"profile": "balanced"}]
    assert stages(larder, event) == [EXACT]


def test_paraphrases_share_an_answer(larder: System) -> None:
    """The answer is another query's, its provenance too, and says which query that was."""
    texts = ("how do I bake bread", "how to bake bread", "How can I bake bread?", "how do I make soup")
    asked = [larder.ask({"namespace": "larder", "text": text}) for text in texts]
    assert [stage(answer) for answer in asked] == [COMPUTED, SEMANTIC, SEMANTIC, COMPUTED]
    computed, *served = (answer["provenance"] for answer in asked[:3])
    assert served == [{**computed, "asked": texts[0]}] * 2
    assert "asked" not in computed


@pytest.mark.parametrize(
    ("question", "paraphrase", "documents"),
    [
        ("what does error code {} mean", "please, what does error code {} mean?", ("E1234", "E1235")),
        ("when is invoice {} due", "Hi, when is the invoice {} due? Thanks!", ("2023-118", "2023-119")),
    ],
)
def test_a_close_question_is_another_question(
    larder: System, question: str, paraphrase: str, documents: tuple[str, str]
) -> None:
    """However near its vector is, it is computed; a paraphrase finds the answer behind the newer one of the other."""
    events = [{"namespace": "larder", "text": question.format(each), "limit": 1} for each in documents]
    answers = [larder.ask(event) for event in events]
    assert [stage(answer) for answer in answers] == [COMPUTED, COMPUTED]
    assert [ids(answer) for answer in answers] == [[each] for each in documents]
    for event, each in zip(events, documents, strict=True):
        answer = larder.ask({**event, "text": paraphrase.format(each)})
        assert (stage(answer), ids(answer)) == (SEMANTIC, [each])
        assert answer["provenance"]["asked"] == event["text"]


def test_a_vector_of_ones_own_is_served_to_itself_alone(larder: System) -> None:
    """To the same direction of any length; not to one a tenth of a degree away, nor beside another text."""
    bare = [{"vector": vector, "limit": 2} for vector in (turned(30), [2 * each for each in turned(30)], turned(30.1))]
    assert stages(larder, *bare) == [COMPUTED, SEMANTIC, COMPUTED]
    both = [{"vector": turned(60), "text": text, "limit": 2} for text in ("jar of plums", "a jar of plums")]
    assert stages(larder, *both) == [COMPUTED, COMPUTED]


def test_who_is_similar_must_ask_the_same_otherwise(larder: System) -> None:
    """Another limit, filter, source or profile has answers of its own."""
    texts = ("what is in the garden shed", "what's in the garden shed")
    changes: list[Json] = [{"limit": 9}, {"source": "empty"}, {"subject": "x"}, {"rerank": False}, {"recipe": "rrf"}]
    assert stages(larder, {"text": texts[0]}) == [COMPUTED]
    found = stages(larder, *({"text": texts[1], **change} for change in changes), {"text": texts[1]})
    assert SEMANTIC not in found[:-1]
    assert found[-1] == SEMANTIC


@pytest.mark.parametrize(
    ("plain", "special", "again"),
    [
        ("how do I boil rice", 'how do I boil "rice"', 'how do I boil "rice" now'),
        ("the letter about rice", "the letter about rice yesterday", "letter about rice yesterday"),
    ],
)
def test_words_and_dates_that_matter_are_not_similar(larder: System, plain: str, special: str, again: str) -> None:
    """A query with expert syntax or a time neither takes nor leaves an answer; the same one again is an exact hit."""
    assert SEMANTIC not in stages(larder, *({"text": text, "limit": 6} for text in (plain, special, again)))
    assert SEMANTIC not in stages(larder, *({"text": text, "limit": 7} for text in (special, plain)))
    assert stages(larder, {"text": special, "limit": 7}) == [EXACT]


def test_the_caches_of_each_profile(larder: System) -> None:
    """`fast` has the exact one only, `balanced` both, `deep` the semantic one only."""
    for profile, same, near in (
        ("fast", EXACT, COMPUTED),
        ("balanced", EXACT, SEMANTIC),
        ("deep", SEMANTIC, SEMANTIC),
    ):
        texts = ("a shelf of pears", "a shelf of pears", "please, a shelf of pears")
        events = [{"text": text, "profile": profile, "limit": 11} for text in texts]
        assert stages(larder, *events) == [COMPUTED, same, near], profile


def test_lookups_are_kept_too(larder: System) -> None:
    """A structured lookup's answer is an exact hit the second time, and so is a later page."""
    event = {"filters": [{"field": "text", "op": "exists", "value": True}], "limit": 2}
    assert stages(larder, event, event) == [COMPUTED, EXACT]
    page = {**event, "cursor": larder.ask({"namespace": "larder", **event})["next_cursor"]}
    assert stages(larder, page, page) == [COMPUTED, EXACT]


def test_answers_that_depend_on_the_time_are_shared_within_a_while(larder: System) -> None:
    """With a signal of time, queries of another minute don't share an answer; without one they do."""
    for recipe, later in (("hybrid", EXACT), ("decay", COMPUTED), ("composite", COMPUTED), ("signals", COMPUTED)):
        event = {"namespace": "larder", "text": "cherries", "recipe": recipe, "limit": 3}
        larder.ask(event)
        (answer,) = larder.answers([event], later=600)
        assert stage(answer) == later, recipe


def test_refusals_and_partial_answers_are_not_kept(vault: System, kitchen: System) -> None:
    """Only what is `ok` is kept: once the embedder is back, the answer is computed, and then kept."""
    event = {"text": "the shaky lantern", "limit": 5}
    first, second, third = (vault.ask(event) for _ in range(3))
    assert (first["status"], first["retrieval_stage"]) == ("partial", "hybrid_merge")
    assert (second["status"], second["retrieval_stage"]) == ("ok", "hybrid_merge")
    assert (third["status"], third["retrieval_stage"]) == ("ok", EXACT)
    denied = [kitchen.ask({"text": "oven", "source": "read only"}) for _ in range(2)]
    assert {answer["retrieval_stage"] for answer in denied} == {"policy"}


def test_a_write_to_the_namespace_ends_both(larder: System) -> None:
    """After it the same and similar queries are computed anew; a write to another namespace ends nothing."""
    events = [{"text": "where are the apricots", "limit": 4}, {"text": "where are the apricots?", "limit": 4}]
    assert stages(larder, *events, events[0]) == [COMPUTED, SEMANTIC, EXACT]
    larder.write([{"id": "other", "namespace": "larder two", "text": "apricots"}])
    assert stages(larder, *events) == [EXACT, SEMANTIC]
    larder.write([{"id": "jar9", "namespace": "larder", "text": "A jar of apricots."}])
    assert stages(larder, events[1]) == [COMPUTED]
    assert ids(larder.ask({"namespace": "larder", **events[0]}))[0] == "jar9"


def test_without_a_watermark_nothing_is_kept(larder: System) -> None:
    """A namespace that no indexer has written may change unseen: its queries are computed every time."""
    point = {"id": 7, "vector": {"dense": turned(3)}, "payload": {"namespace": "stray", "text": "A stray jar."}}
    qdrant = larder.deployment.settings["qdrant"]["url"]
    assert httpx.put(f"{qdrant}/collections/documents/points?wait=true", json={"points": [point]}).is_success
    events = [{"namespace": "stray", "vector": turned(angle)} for angle in (0, 0, 1)]
    answers = [larder.ask(event) for event in events]
    assert [answer["retrieval_stage"] for answer in answers] == ["semantic"] * 3
    assert {len(answer["results"]) for answer in answers} == {1}


def test_answers_have_a_time_to_live(plain: System) -> None:
    """A cached answer is served for a while, which being served doesn't lengthen, and then no more."""
    event = {"text": "sailors", "profile": "fast", "limit": 19}

    wait_until(lambda: stage(plain.ask(event)) == EXACT)
    wait_until(lambda: stage(plain.ask(event)) == COMPUTED)


def test_identical_queries_at_once_are_computed_once(larder: System) -> None:
    """Of many in flight together one asks Qdrant; each is answered as itself, by the same answer."""
    event = {"namespace": "larder", "text": "a shelf of plums", "profile": "fast"}
    larder.qdrant.forget()
    with larder.qdrant.holding(BATCH):
        asked = larder.send([{**event, "metadata": {"mine": n}} for n in range(30)])
        assert larder.qdrant.reached.wait(30)
        # Those that come later than the others' answer are served by the cache: the count is the same.
        time.sleep(1)
    answers = [ended.value for ended in larder.collect(asked)]
    assert len(larder.qdrant.searches()) == 1
    assert [answer["metadata"] for answer in answers] == [{"mine": n} for n in range(30)]
    assert [answer["query_id"] for answer in answers] == asked
    assert len({answer["result_id"] for answer in answers}) == 30
    assert len({str(answer["provenance"]) for answer in answers}) == 1
    assert len({str(answer["results"]) for answer in answers}) == 1
    assert [stage(answer) for answer in answers].count(COMPUTED) > 1
