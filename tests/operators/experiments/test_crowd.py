"""The simulated crowd."""

import random

from hypothesis import given
from hypothesis import strategies as st

from operators.experiments.crowd import Crowd, react, seek


@given(st.lists(st.integers(0, 2), max_size=12), st.randoms(use_true_random=False))
def test_a_user_reads_downwards(grades: list[int], chance: random.Random) -> None:
    """Clicks are on ranks of the page, each once, in their order; equal seeds give equal clicks."""
    state = chance.getstate()
    clicked = Crowd().read(grades, chance)
    assert clicked == sorted({*clicked} & {*range(len(grades))})
    chance.setstate(state)
    assert Crowd().read(grades, chance) == clicked


def test_feedback_has_the_tokens_of_what_was_clicked_on() -> None:
    """A hit without a token is none of an experiment."""
    hits = [{"id": "good", "token": "t-1"}, {"id": "better"}, {"id": "x", "token": "t-3"}]
    sure = Crowd(attraction=(0.0, 1.0), satisfaction=0.0)
    sent = [*react(sure, {"results": hits}, {"good": 1, "better": 1}, random.Random(0))]
    assert sent == [{"token": "t-1", "action": "click"}]


def test_users_know_some_documents_by_their_words() -> None:
    """Each wish is for one document by words of it; as many users as asked have it; equal seeds give equal wishes."""
    texts = {f"d{number}": f"words about {number}: first{'abc'[number % 3]} second third fourth" for number in range(9)}
    documents = [{"id": id_, "namespace": "n", "text": text} for id_, text in texts.items()]
    documents.append({"id": "short", "namespace": "n", "text": "too few words"})
    wishes = [*seek(documents, "hybrid", 5, 3, 1)]
    assert wishes == [*seek(documents, "hybrid", 5, 3, 1)]
    assert wishes != [*seek(documents, "hybrid", 5, 3, 2)]
    assert len({event["query_id"] for event, _ in wishes}) == len(wishes) == 15
    assert len({id_ for _, grades in wishes for id_ in grades}) == 5
    for event, grades in wishes:
        [wanted] = grades
        assert all(word in texts[wanted] for word in event["text"].split())
        assert (event["namespace"], event["recipe"]) == ("n", "hybrid")
