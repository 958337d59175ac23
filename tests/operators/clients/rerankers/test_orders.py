"""Explanations in a model's answer: their numbers are no documents."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.chat.reasoning import read_answer
from operators.clients.rerankers.orders import read_order
from schemas.errors import BackendBadResponse
from tests.growth import LINEAR, growth


@pytest.mark.parametrize(
    "answer",
    [
        "3 (score 9/10), 1 (score 5/10)",
        "3 (9), 1 (5)",
        "3 - 9/10\n1 - 5/10",
        "3: 9/10, 1: 5/10",
        "3: 0.9, 1: 0.5",
        "3: 9\n1: 5",
        "3 = 9, 1 = 5",
        "3 - 1",
        "3 – 1 – 99",
        "3（得分 9/10）、1（得分 5/10）",
        "3：提到2只猫\n1：有4条腿",
        "最终排序：3、1。文档2不相关。",
        "First: 3, second: 1",
        "Rank 1: Document 3\nRank 2: Document 1",
        "Document: 3, Score: 9\nDocument: 1, Score: 5",
        "3 (90%), 1 (50 %)",
        "3 score: 9, 1 score: 5",
        "3, relevance 9; 1, relevance 5",
        "3: because it mentions 2 cats\n1: because it has 4 legs",
        "3 because it mentions 2 cats, 1 because it has 4 legs",
        "3 - it mentions 2 cats\n1 - it has 4 legs",
        "3 – 2 cats, 1 – 4 legs",
        "[3]: 2 cats and 5 dogs\n[1]: 4 legs",
        "**3**: mentions 2 cats\n**1**: mentions 4 legs",
        "- **Document 3**: mentions 2 cats\n- **Document 1**: mentions 4 legs",
        "Document 3 (2 cats), Document 1 (4 legs)",
        "1. Document 3 - 2 cats\n2. Document 1 - 4 legs",
        "1. **Document 3**: 2 cats\n2. **Document 1**: 4 legs",
        "1. 3: 2 cats\n2. 1: 4 legs",
        "[3] > [1]\n\nExplanation: document 2 is about 4 dogs.",
        "[3] > [1]\n\n**Explanation:**\n- 2: it has 4 dogs\n- 3: it has 5",
        "[3] > [1]\n\n### Reasoning\n2. dogs\n4. birds",
        "[3] > [1]\n\nDocument 2 is about dogs, and 4 about birds.",
        "[3] > [1]. Document 2 is not relevant.",
        "3, 1\nNot relevant: 2, 4, 5",
        "Relevant: 3, 1\nIrrelevant: 2, 4, 5",
        "3, 1\n\nNote: 2 was left out because it has 4 dogs.",
        "3, 1 (out of 5 documents)",
        "The 2 most relevant documents are: 3, 1",
        "The top 2 documents: 3 and 1",
        "Of the 5 documents, 3 and then 1 answer it.",
        "Here are the 2 relevant documents:\n\n3, 1",
        "I considered document 2 and document 4.\n\nFinal answer: 3, 1",
        "Let me look at each.\n2: dogs.\n4: birds.\n\n**Ranking:** 3 > 1",
        "2 has dogs.\n\n**Final Answer**: [3, 1]\n\nExplanation: 4 has birds",
        "My final ranking is: 3, 1.",
        "The order is: $\\boxed{3, 1}$",
        '{"ranking": [3, 1]}',
        '{"ranking": ["3", "1"], "confidence": 2}',
        '{"confidence": 2, "scores": [4, 5], "order": [3, 1]}',
        '```json\n{"ranking": [3, 1]}\n```\nDocument 2 has 4 dogs.',
        'Here are 2: {"documents": [{"id": 3, "score": 9}, {"id": 1, "score": 5}]}',
        '[{"document": 3, "score": 9}, {"document": 1, "score": 5}]',
        '[{"rank": 1, "document": 3, "reason": "2 cats"}, {"rank": 2, "document": 1, "reason": "4 legs"}]',
        '{"1": 3, "2": 1}',
        '{"3": 0.9, "1": 0.5}',
        '{"reasoning": "2 and 4 are dogs", "answer": {"ranking": ["Document 3", "[1]"]}}',
        '{"relevant": [3, 1], "irrelevant": [2, 4, 5]}',
        '{"name": "ranking", "arguments": {"ranking": [3.0, 1]}}',
        "| Rank | Document | Score |\n|---|---|---|\n| 1 | 3 | 9 |\n| 2 | 1 | 5 |",
        "| Document | Why |\n|:--|:--|\n| 3 | 2 cats |\n| [1] | 4 legs |",
        "| # | Doc | Relevance |\n| - | - | - |\n| 1 | Document 3 | 9/10 |\n| 2 | Document 1 | 5/10 |",
        "The ranking:\n\n| Document | Score |\n|---|---|\n| 3 | 9/10 |\n| 1 | 5/10 |\n\nDocument 2 has 4 dogs.",
    ],
    ids=lambda answer: repr(answer)[:50],
)
def test_numbers_of_explanations_are_no_documents(answer: str) -> None:
    """Of five documents 3 and 1 are named, whatever else is counted, scored or explained."""
    assert read_order(answer, 5) == [3, 1]


@pytest.mark.parametrize(
    "answer",
    [
        '{"ranking": []}',
        '{"ranking": [], "reason": "2 dogs"}',
        "none",
        "None of the documents is relevant. Document 2 has 4 dogs.",
        "**None**\n\nExplanation: document 2 has 4 dogs.",
    ],
)
def test_none_stays_none(answer: str) -> None:
    """Remarks on documents behind `none` name none of them."""
    assert read_order(answer, 5) == []


@pytest.mark.parametrize(
    "answer",
    [
        '{"must": []}',
        '{"ranking": null}',
        '{"ranking": [9]}',
        '{"ranking": [' + "9" * 400 + "]}",
        '{"ranking": [1e300]}',
        '{"score": 3}',
        "9/10",
        "3 %",
    ],
)
def test_other_numbers_name_nothing(answer: str) -> None:
    """An object without an order, and a score alone, are a bad response."""
    with pytest.raises(BackendBadResponse):
        read_order(answer, 5)


@pytest.mark.parametrize(
    ("answer", "first"),
    [
        ("3 is the best, since 2 has 4 dogs", 3),
        ("Document 3. It mentions 2 cats.", 3),
        ('{"best": 3, "reason": "2 cats"}', 3),
        ('{"document": "Document 3", "score": 9}', 3),
        ("The best is 3 (9/10).", 3),
        ("#3", 3),
    ],
)
def test_a_pick_is_found(answer: str, first: int) -> None:
    """The best document comes first."""
    assert read_order(answer, 5)[0] == first


ORDERS = st.integers(1, 50).flatmap(lambda count: st.permutations(range(1, count + 1)))
REASONS = st.lists(
    st.sampled_from(["it", "mentions", "2", "cats", "17", "of", "40", "words", "none", "good"]), min_size=1
).map(lambda words: " ".join(["it", *words]))


@given(
    ORDERS, REASONS, st.sampled_from(["{} ({})", "{}: {}", "{} - {}", "[{}]: {}", "Document {}: {}", "- **{}** – {}"])
)
def test_any_reason_beside_each_document(order: list[int], reason: str, item: str) -> None:
    """Whatever a model says of each document, the order is read as it was written."""
    assert read_order("\n".join(item.format(number, reason) for number in order), len(order)) == order


@given(ORDERS, st.lists(st.integers(0, 10), min_size=50, max_size=50), st.sampled_from(["document", "id", "doc_id"]))
def test_any_scores_in_json(order: list[int], scores: list[int], key: str) -> None:
    """Scores and ranks in objects are no documents."""
    entries = [{"rank": rank, key: number, "score": scores[rank]} for rank, number in enumerate(order)]
    assert read_order(json.dumps(entries), len(order)) == order
    assert read_order(json.dumps({"ranking": order, "scores": scores}), len(order)) == order


@given(
    ORDERS, st.text("0123456789, .\nnone", max_size=60), st.sampled_from([("<think>", "</think>"), ("", "</think>")])
)
def test_no_number_comes_from_a_thought(order: list[int], thought: str, form: tuple[str, str]) -> None:
    """An order behind a thought is that order."""
    text = f"{form[0]}{thought}{form[1]}\n{', '.join(map(str, order))}"
    assert read_order(read_answer(text).answer, len(order)) == order


@pytest.mark.parametrize(
    "repeated", ["answer:\n", "1. ", "[", "not 3, ", "| 1 ", "because 2 ", "1-5 ", "1-", "1 to ", "1st: ", " "]
)
def test_the_time_grows_with_the_answer(repeated: str) -> None:
    """A model in a loop writes the same again and again."""

    def read(size: int) -> None:
        with suppress(BackendBadResponse):
            read_order(repeated * size, 5)

    assert growth(read, 200) < LINEAR
