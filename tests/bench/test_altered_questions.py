"""Questions that rules alter."""

from bench.altered_questions import altered
from bench.question_pairs import Pair

ASKED = [
    "When did Anna lend Peter 20 euros before the meeting?",
    "What did Anna and Peter see in June?",
    "Did Anna meet Peter in May?",
    "which problems have been solved with the old pump .",
]


def close(text: str) -> dict[str, str]:
    """The rules' verdict on a question that has another answer, by kind."""
    return {pair.kind: pair.asked for pair in altered(ASKED) if not pair.same and pair.cached == text}


def test_what_is_changed_in_a_question() -> None:
    """A number, a name, the order of two names, a direction, a negation."""
    assert close(ASKED[0]) == {
        "number": "When did Anna lend Peter 21 euros before the meeting?",
        "name": "When did Peter lend Peter 20 euros before the meeting?",
        "order": "When did Peter lend Anna 20 euros before the meeting?",
        "direction": "When did Anna lend Peter 20 euros after the meeting?",
        "negation": "When did Anna not lend Peter 20 euros before the meeting?",
    }


def test_what_would_not_change_the_answer_is_no_other_question() -> None:
    """Not the order of a list of names, not a month as a name, not the negation of a question for yes or no."""
    assert close(ASKED[1]) == {"name": "What did Peter and Peter see in June?"}
    assert set(close(ASKED[2])) == {"name", "order"}
    assert close("which problems have been solved with the old pump?") == {
        "direction": "which problems have been solved without the old pump?",
        "negation": "which problems have not been solved with the old pump?",
    }


def test_fillers_ask_the_same() -> None:
    """Politeness, marks, a frame, articles and case; never a pair of equal texts, and each once."""
    pairs = altered([*ASKED, ASKED[0]])
    same = {pair.asked for pair in pairs if pair.same and pair.cached == ASKED[0]}
    assert {
        "please, When did Anna lend Peter 20 euros before the meeting?",
        "can you tell me when did Anna lend Peter 20 euros before the meeting?",
        "When did Anna lend Peter 20 euros before meeting?",
        "when did anna lend peter 20 euros before the meeting?",
    } < same
    assert all(pair.cached != pair.asked for pair in pairs)
    assert len(set(pairs)) == len(pairs)
    assert Pair("frame", True, ASKED[2], "can you tell me did Anna meet Peter in May?") not in pairs
