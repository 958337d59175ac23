"""The endings of phrases, over the real engine."""

from collections.abc import Iterator

import pytest

from operators.query.search_bodies import ENDINGS
from operators.text.expression import parse
from tests.operators.text.keyword_index import Index, index

COLUMNS = {"title": "title", "text": "text"}
MANY = ENDINGS + 20


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """A phrase with many endings in texts, the last of them twice, and one in titles."""
    with index(tmp_path_factory.mktemp("index")) as made:
        texts = [f"Deep learning{number:03}" for number in range(MANY)]
        made.write([("", text) for text in (*texts, texts[-1], "learning deep")] + [("Deep learner", "")])
        yield made


def endings(documents: Index, text: str) -> tuple[dict[str, list[str]], bool]:
    """By column, and whether there are more."""
    expression = parse(text, COLUMNS).expression
    assert expression is not None
    found, cut = documents.counted(expression)
    return {column: list(words) for (_, column), words in found.items()}, cut


def test_a_phrase_has_the_endings_of_each_column(documents: Index) -> None:
    """Words that start so, in any case, of documents that hold the rest of the phrase in that column."""
    assert endings(documents, '"deep LEARNING01"*') == (
        {"title": [], "text": [f"learning01{digit}" for digit in range(10)]},
        False,
    )
    assert endings(documents, 'title:"deep lea"*') == ({"title": ["learner"]}, False)


def test_the_commonest_endings_are_kept(documents: Index) -> None:
    """Of more than are looked for the rarest are left out, and that is said."""
    found, cut = endings(documents, 'text:"deep l"*')
    assert cut
    assert len(found["text"]) == ENDINGS
    assert found["text"][0] == f"learning{MANY - 1:03}"
