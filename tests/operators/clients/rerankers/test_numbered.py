"""The numbered list that a chat model is asked about, and the reading of its answer."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.listwise import write_prompt
from operators.clients.rerankers.orders import read_order
from schemas.errors import BackendBadResponse

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
        "3, 1, 2",
        "3,1,2",
        "3 1 2",
        "3\n1\n2",
        "3.\n1.\n2.",
        "3. 1. 2.",
        "3>1>2",
        "3 > 1 > 2",
        "3->1->2",
        "3-1-2",
        "[3] > [1] > [2]",
        "[3,1,2]",
        "[3, 1, 2]",
        '["3", "1", "2"]',
        '{"order": [3, 1, 2]}',
        "```json\n[3,1,2]\n```",
        "**3**, **1**, **2**",
        "- 3\n- 1\n- 2",
        "#3 #1 #2",
        "Document3, Document1, then document-2.",
        "The 3rd, the 1st, the 2nd.",
        "03, 001, 2",
        "0" * 5000 + "3 1 2",
        "3, 3, 1, 3, 2, 1",
        "0, 3, 6, 1, 99999999999999999999, 2",
        "3. 1, 2",
        "none of them is perfect: 3 1 2",
        "3 (0.95), 1 (1.0), 2 (.5), -4, +5, −4, 4e0, 5.0.1",
        "٤ 3 ５ 1 ² 2",
        # Places, as far as their own numbers run from 1.
        "1. 3\n2. 1\n3. 2",
        "1. 3\r\n2. 1\r\n3. 2\r\n",
        "1. 3\n\n2. 1\n\n3. 2\n",
        "1. 3.\n2. 1.\n3. 2.",
        "1) 3\n2) 1\n3) 2",
        "1: 3\n2: 1\n3: 2",
        "1. 3 2. 1 3. 2",
        "1. 3, 2. 1, 3. 2",
        "1. [3]\n2. [1]\n3. [2]",
        "**1.** 3\n**2.** 1\n**3.** 2",
        "1. **3**\n2. **1**\n3. **2**",
        "- 1. 3\n- 2. 1\n- 3. 2",
        "1. Document 3\n2. document [1]\n3. #2",
        "1. 3 - it has 5 of 5\n2. 1: has 4\n3. 2 (0.9; 4)",
        "Here are the 5 in order:\n1. 3\n2. 1\n3. 2\nI left out 4 and 5.",
        "1. 3\n2. 1\n3. 2\n4. 3\n5. 99",
    ],
    ids=lambda answer: repr(answer)[:40],
)
def test_an_order_is_read_however_it_is_written(answer: str) -> None:
    """Of five documents 3 1 2 are read from lists of any form, with what is no document's number left out."""
    assert read_order(answer, 5) == [3, 1, 2]


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("3", [3]),
        ("12.", [12]),
        ("1. 2. 3.", [1, 2, 3]),
        ("1.\n2.\n3.", [1, 2, 3]),
        ("1. 3", [3]),
        ("1. 3, 2", [1, 3, 2]),
        ("1. 3 > 2", [1, 3, 2]),
        ("3. 1", [3, 1]),
        ("2. 4\n3. 5", [2, 4, 3, 5]),
        ("1. 4\n3. 5", [1, 4, 3, 5]),
        ("1. 4\n1. 5", [1, 4, 5]),
        ("1. Cats\n4. Dogs", [1, 4]),
        ("1. 3D printing", [1]),
        ("1. 5 ways to cook", [1]),
        ("-1. 4", [4]),
        ("I weighed 1. 4 against 5", [1, 4, 5]),
    ],
)
def test_lists_that_number_themselves_by_hand(answer: str, order: list[int]) -> None:
    """Numbers are places only where they run from 1 before a number alone; elsewhere each is a document's."""
    assert read_order(answer, 12) == order


@pytest.mark.parametrize(
    "answer",
    ["none", "None.", "NONE", "**none**", "_none_", '"none"', "none of these 6", "0: none", "-1, none", "1.0 none"],
)
def test_none_without_a_number_is_a_verdict(answer: str) -> None:
    """Without a document's number the word `none`, in any case, is the order of no document."""
    assert read_order(answer, 5) == []


@pytest.mark.parametrize(
    "answer",
    [
        *("", " \n", "0", "6", "-3", "+3", "−3", "3.5", ".3", "1e0", "1.2.3", "9" * 5000),
        *("three", "nonetheless", "cannone", "null", "{}", "n one", "NaN", "[[]]", "[] []"),
        *("３", "3３", "\uff10", "٣", "३", "²", "④", "1. 6"),
        "ｎｏｎｅ",
    ],
    ids=lambda answer: repr(answer)[:20],
)
def test_another_answer_is_a_bad_response(answer: str) -> None:
    """Neither a number of the list nor `none` is BackendBadResponse, not a guess, and tells nothing of the answer."""
    with pytest.raises(BackendBadResponse) as caught:
        read_order(answer, 5)
    assert str(caught.value) == "chat rerank: neither a document's number nor none in the answer"


@pytest.mark.parametrize("answer", ["[]", " [ ]\n", "[\n]", "```json\n[]\n```", "```\n[]\n```", "`[]`", "**[]**"])
def test_an_empty_list_alone_is_a_verdict(answer: str) -> None:
    """A model that writes its order as a list of JSON says so that no document is relevant."""
    assert read_order(answer, 5) == []


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("1-5", [1, 2, 3, 4, 5]),
        ("1–5", [1, 2, 3, 4, 5]),
        ("1 to 4", [1, 2, 3, 4]),
        ("1 through 4", [1, 2, 3, 4]),
        ("Documents 02-04.", [2, 3, 4]),
        ("[2-4]", [2, 3, 4]),
        ("Documents 1 through 3 are relevant, and so is 7.", [1, 2, 3, 7]),
        ("3, 1, 5-7", [3, 1, 5, 6, 7]),
        ("6-8, 1-2, 7", [6, 7, 8, 1, 2]),
        ("- 4–5\n- 1", [4, 5, 1]),
        ("2-4: all of them are about cats", [2, 3, 4]),
        ('{"ranking": ["2-4", "1"]}', [1]),
        ('{"ranking": "2-4"}', [2, 3, 4]),
        # No ranges: chains, descending numbers, remarks, signs, numbers out of range.
        ("3-1-2", [3, 1, 2]),
        ("1–2–4", [1, 2, 4]),
        ("1-3 to 5", [1, 3, 5]),
        ("3 to 1 to 2", [3, 1, 2]),
        ("5-3", [5, 3]),
        ("2-2", [2]),
        ("1->4", [1, 4]),
        ("1 > 4", [1, 4]),
        ("1 - 4 legs", [1]),
        ("-1-3", [3]),
        ("1.5-4", [4]),
        ("1-4.5", [1]),
        ("1-90", [1]),
        ("0-3", [3]),
        ("2024-2025, 3", [3]),
    ],
)
def test_a_range_names_all_between_its_ends(answer: str, order: list[int]) -> None:
    """Exactly two numbers of the list, the smaller first, that a hyphen, a dash, `to` or `through` joins."""
    assert read_order(answer, 8) == order


@pytest.mark.parametrize("item", ["{}: {}", "{}: Document {}", "{} - {}", "{} place: {}", "**{}**: {}", "{} = [{}]"])
@pytest.mark.parametrize("separator", [", ", "; ", "\n", " "])
def test_ordinals_are_places(item: str, separator: str) -> None:
    """`1st: 3, 2nd: 1` is an order, whose ordinals name no document."""
    answer = separator.join(map(item.format, ("1st", "2nd", "3rd", "4th"), (3, 1, 5, 2)))
    assert read_order(answer, 5) == [3, 1, 5, 2]
    assert read_order(answer.replace("\n", "\n- "), 5) == [3, 1, 5, 2]


def test_an_answer_is_read_up_to_20000_characters() -> None:
    """An answer of 20,000 characters is read, and one of more is BackendBadResponse, whatever it begins with."""
    assert read_order("3, none" + " " * 19_993, 5) == [3]
    with pytest.raises(BackendBadResponse):
        read_order("3, none" + " " * 19_994, 5)


@given(st.text() | st.text("0123456789-+.,:;>()[]*_# \nnoe") | st.text("12.) \n"), st.integers(1, 200))
def test_any_string_is_an_order_or_a_bad_response(answer: str, count: int) -> None:
    """Whatever a model says, its reading ends in numbers in range, each once; an empty order only with a `none`."""
    try:
        order = read_order(answer, count)
    except BackendBadResponse:
        return
    assert set(order) <= set(range(1, count + 1))
    assert len(order) == len(set(order))
    assert order or "none" in answer.lower() or "".join(answer.split()) == "[]"


@given(ORDERS, st.sampled_from([", ", ",", " ", "\n", " > ", ">", "] > [", "; ", ".\n", "\n- "]))
def test_every_order_is_read_back(order: list[int], separator: str) -> None:
    """Any order of up to 200 documents is read as it was written."""
    assert read_order(f"[{separator.join(map(str, order))}]", len(order)) == order


@given(
    ORDERS,
    st.sampled_from(
        ["{}. {}", "{}) {}", "{}: {}", "**{}.** {}", "{}. [{}]", "{}. Document {}", "{}. {}.", "{}. {} - why"]
    ),
    st.sampled_from(["", "Here are 7:\n"]),
)
def test_every_order_that_numbers_itself_is_read_back(order: list[int], item: str, before: str) -> None:
    """Any order of up to 200 documents is read as it was written where the model numbers its lines."""
    lines = [item.format(place, number) for place, number in enumerate(order, start=1)]
    assert read_order(before + "\n".join(lines), len(order)) == order


@pytest.mark.parametrize("order", list(permutations((1, 2, 3, 4))), ids=str)
def test_every_order_with_points_is_read_back(order: tuple[int, ...]) -> None:
    """A point after each number doesn't make places of them, in one line or in many."""
    assert read_order(" ".join(f"{number}." for number in order), 4) == list(order)
    assert read_order("\n".join(f"{number}." for number in order), 4) == list(order)


@given(
    st.lists(st.integers(-300, 300), max_size=8),
    st.integers(1, 200),
    st.text(st.characters(categories=["L"]), min_size=1),
    st.booleans(),
)
def test_numbers_among_words_are_read_in_their_order(numbers: list[int], count: int, word: str, none: bool) -> None:
    """Of numbers among words those in range count, the first time each; without one the answer counts by its `none`."""
    word = "x" if "none" in word.lower() else word
    answer = f"{word} {f' {word} '.join(map(str, numbers))} {'none' if none else ''}"
    expected = list(dict.fromkeys(number for number in numbers if 1 <= number <= count))
    if not expected and not none:
        with pytest.raises(BackendBadResponse):
            read_order(answer, count)
    else:
        assert read_order(answer, count) == expected
