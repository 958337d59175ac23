"""The numbered list that a chat model is asked about, and the reading of its answer."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.listwise import read_order, write_prompt
from schemas.errors import BackendBadResponse
from tests.growth import LINEAR, growth

ORDERS = st.integers(1, 200).flatmap(lambda count: st.permutations(range(1, count + 1)))


def request_of(query: str, *texts: str) -> RerankRequest:
    """A request of documents with ids that no prompt may hold."""
    return RerankRequest(query, {f"secret-id-{at}": text for at, text in enumerate(texts)}, "docs", "tenant")


def test_the_prompt_is_a_numbered_list_of_json_strings() -> None:
    """The model gets the query and the documents in their order from 1, each on one line, and no id."""
    prompt = write_prompt(request_of('a "query"', "one\ntwo", "日本"))
    assert prompt == 'Query:\n"a \\"query\\""\nDocuments:\n1. "one\\ntwo"\n2. "日本"'


@pytest.mark.parametrize("character", ["x", "é", "日", "🙂", "\n", "<", "\ud800"])
def test_documents_are_cut_at_300_code_points(character: str) -> None:
    """Of a document the model reads 300 code points, whatever their bytes and escapes; a query is whole."""
    prompt = write_prompt(request_of("q" * 400, character * 300, character * 299 + "yz", character * 100_000))
    shown = {"\n": "\\n", "<": "\\u003c", "\ud800": "\\ud800"}.get(character, character)
    documents = f'1. "{shown * 300}"\n2. "{shown * 299}y"\n3. "{shown * 300}"'
    assert prompt == f'Query:\n"{"q" * 400}"\nDocuments:\n{documents}'


@pytest.mark.parametrize(
    "answer",
    [
        '{"ranking": [3, 1, 2]}',
        '{"ranking":[3,1,2]}',
        '{\n  "ranking" : [\n    3,\n    1,\n    2\n  ]\n}',
        '```json\n{"ranking": [3, 1, 2]}\n```\nDocument [4] has 5 dogs.',
        '{"ranking": [4, 5]}? No: {"ranking": [3, 1, 2]}',
        '{"ranking": [3, 1, 2], "scores": [9, 5]}',
        '{"name": "ranking", "arguments": {"ranking": [3, 1, 2]}}',
        '{"ranking": [9, 3, 3, 0, 1, 2, 3, 99999999999999999999]}',
        "[3, 1, 2]",
        "[3,1,2]",
        '{"order": [3, 1, 2]}',
        "Of the 5 documents: [3, 1, 2].",
        "<think>4 and [5, 4]? Or []?</think>[3, 1, 2]",
        "[3] > [1] > [2]",
        '["3", "1", "2"]',
        '["Document 3", "Document 1", "Document 2"]',
        "3, 1, 2",
        "3 1 2",
        "3\n1\n2",
        "3. 1. 2.",
        "3 > 1 > 2",
        "**3**, **1**, **2**",
        "The 3rd, the 1st, the 2nd.",
        "03, 001, 2",
        "0, 3, 6, 1, 99999999999999999999, 2",
        "٤ 3 ５ 1 ² 2",
    ],
    ids=lambda answer: repr(answer)[:40],
)
def test_an_order_is_read(answer: str) -> None:
    """Of five documents 3 1 2: the last ranking, else the last list, else all digits, each in range once."""
    assert read_order(answer, 5) == [3, 1, 2]


@pytest.mark.parametrize(
    "answer", ['{"ranking": []}', '{"ranking": [\n]}', "[]", "```\n[ ]\n```", "<think>3?</think>[]", "[3]? No: []"]
)
def test_an_empty_list_is_a_verdict(answer: str) -> None:
    """An empty list is the order of no document."""
    assert read_order(answer, 5) == []


@pytest.mark.parametrize(
    "answer",
    [
        *("", " \n", "none", "three", "null", "{}", "NaN", "0", "6", "9" * 5000),
        *("３", "\uff10", "٣", "३", "²", "④"),
        *('{"ranking": null}', '{"ranking": [9]}', '{"ranking": [' + "9" * 400 + "]}", '{"must": {}}'),
    ],
    ids=lambda answer: repr(answer)[:20],
)
def test_another_answer_is_a_bad_response(answer: str) -> None:
    """Neither a number of the list nor an empty list is BackendBadResponse, and tells nothing of the answer."""
    with pytest.raises(BackendBadResponse) as caught:
        read_order(answer, 5)
    assert str(caught.value) == "chat rerank: no document's number in the answer"


@given(st.text() | st.text("0123456789-+.,:;>()[]*_# \nnoe") | st.text("12,[] \n"), st.integers(1, 200))
def test_any_string_is_an_order_or_a_bad_response(answer: str, count: int) -> None:
    """Whatever a model says, its reading ends in numbers in range, each once; an empty order only with a list."""
    try:
        order = read_order(answer, count)
    except BackendBadResponse:
        return
    assert set(order) <= set(range(1, count + 1))
    assert len(order) == len(set(order))
    assert order or "[" in answer


THOUGHTS = st.text("0123456789, .[]\n") | st.text()


@given(ORDERS, THOUGHTS, st.sampled_from(['{{"ranking": {}}}', '```json\n{{"ranking": {}}}\n```']))
def test_every_order_is_read_behind_a_thought(order: list[int], thought: str, form: str) -> None:
    """Any order of up to 200 documents is read as it was written, whatever stands before it."""
    assert read_order(thought + form.format(order), len(order)) == order


@given(ORDERS, st.sampled_from([", ", ",", " ", "\n", " > ", ">", "] > [", "; ", ".\n", "\n- "]))
def test_every_order_without_an_object_is_read(order: list[int], separator: str) -> None:
    """Any order of up to 200 documents is read as it was written, with whatever stands between them."""
    assert read_order(f"[{separator.join(map(str, order))}]", len(order)) == order


@pytest.mark.parametrize("repeated", ["[", "[1", "[1]", "[ ", '"ranking"', '"ranking" : [', "1 ", " ", "{"])
def test_the_time_grows_with_the_answer(repeated: str) -> None:
    """A model in a loop writes the same again and again."""

    def read(size: int) -> None:
        with suppress(BackendBadResponse):
            read_order(repeated * size, 5)

    assert growth(read, 200) < LINEAR
