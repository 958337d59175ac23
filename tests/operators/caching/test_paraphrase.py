"""Paraphrases: which words of two texts may differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.caching.paraphrase import paraphrases, wording

CONTENT = [
    *("error", "code", "invoice", "paris", "london", "anna", "peter", "allergic", "refundable", "open", "close"),
    *("E1234", "E1235", "2023-118", "12", "twelve", "3.5", "not", "no", "never", "with", "without"),
    *("from", "to", "before", "after", "above", "below", "in", "out", "when", "where", "more", "less"),
    *("first", "second", "über", "крыша", "請求書"),
]
NUMBERS = ["7", "12", "1,234", "3.5", "E1234", "2023-118", "v2", "10²", "-5", "50%"]
NEGATIONS = ["not", "no", "never", "without", "isn't", "can't", "cannot", "don’t"]

Words = list[str]
WORDS = st.lists(st.sampled_from(CONTENT), min_size=2, max_size=8)
NAMES = st.lists(st.text("abcdefgh", min_size=4, max_size=6), min_size=2, max_size=6, unique=True)


def said(words: Words) -> str:
    """The words as a text."""
    return " ".join(words)


@given(st.text())
def test_a_text_is_a_paraphrase_of_itself(text: str) -> None:
    """Whatever is in it; something is always left of a text that isn't blank."""
    assert paraphrases(text, text)
    assert bool(wording(text)) == bool(text.split())


@given(WORDS, WORDS, st.data())
def test_it_does_not_matter_which_was_cached(one: Words, other: Words, data: st.DataObject) -> None:
    """Both ways the answer is the same, also where fillers are beside the words."""
    first, second = data.draw(dressed(one)), data.draw(dressed(other))
    assert paraphrases(first, second) == paraphrases(second, first) == (one == other)


def dressed(words: Words) -> st.SearchStrategy[str]:
    """The words with politeness, marks and articles around them."""
    # After these words `please` may be what is asked about.
    bare = [] if words[-1] in {"to", "not", "never"} else ["{} please"]
    shape = st.sampled_from(
        [
            *bare,
            "{}",
            "{}?",
            "{} ?",
            "  {}.",
            "please {}",
            "Please, {}?",
            "{}, please!?",
            "{}? Thanks!",
            "{}. Thank you very much.",
            "Hello, {}",
            "Hi there! {}",
            "tell me {}",
            "can you tell me {}?",
            "Could you please tell me {}",
            "Good morning, could you tell me {}, please?",
            "what is {}",
            "What's the {}?",
            "what are the {}",
        ]
    )
    articles = st.lists(st.sampled_from(["", "the "]), min_size=len(words), max_size=len(words))
    with_articles = articles.map(lambda each: said([f"{a}{word}" for a, word in zip(each, words, strict=True)]))
    return st.tuples(shape, with_articles).map(lambda each: each[0].format(each[1]))


@given(NAMES, st.data())
def test_fillers_never_change_the_verdict(words: Words, data: st.DataObject) -> None:
    """Of a text and the same text with fillers both are, or neither is, a paraphrase of a third."""
    text, third = said(words), said(data.draw(st.permutations(words)))
    assert paraphrases(text, data.draw(dressed(words)))
    assert paraphrases(data.draw(dressed(words)), third) == paraphrases(text, third)


@given(WORDS, st.sampled_from(NUMBERS + NEGATIONS), st.data())
def test_a_number_or_a_negation_always_counts(words: Words, one: str, data: st.DataObject) -> None:
    """Wherever it is added, left out, or put in the place of another word."""
    place = data.draw(st.integers(0, len(words) - 1))
    added, replaced = [*words[:place], one, *words[place:]], [*words[:place], one, *words[place + 1 :]]
    text = data.draw(dressed(words))
    assert not paraphrases(text, data.draw(dressed(added)))
    assert paraphrases(text, data.draw(dressed(replaced))) == (wording(one) == wording(words[place]))


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), NAMES, st.data())
def test_another_number_is_another_question(one: str, other: str, words: Words, data: st.DataObject) -> None:
    """Whichever, and wherever it stands."""
    place = data.draw(st.integers(0, len(words)))
    first, second = ([*words[:place], each, *words[place:]] for each in (one, other))
    assert paraphrases(data.draw(dressed(first)), data.draw(dressed(second))) == (one == other)


@given(NAMES, st.data())
def test_another_order_is_another_question(words: Words, data: st.DataObject) -> None:
    """Any two different words that change places."""
    one, other = data.draw(st.lists(st.integers(0, len(words) - 1), min_size=2, max_size=2, unique=True))
    swapped = list(words)
    swapped[one], swapped[other] = words[other], words[one]
    assert not paraphrases(data.draw(dressed(words)), data.draw(dressed(swapped)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("what does error code E1234 mean", "Please, what does error code E1234 mean?"),
        ("what is the capital of France", "can you tell me what the capital of France is?"),
        ("the capital of France", "What's the capital of France?"),
        ("how do I bake a bread", "please tell me how I can bake a bread"),
        ("how to cancel an order", "how can I cancel the order"),
        ("who is the head of sales", "do you know who's the head of sales?"),
        ("isn't it open", "is not it open"),
        ("I cannot log in", "I can't log in"),
        ("what can’t I take on board", "what can't I take on board?"),
        ("ＩＮＶＯＩＣＥ １１８", "invoice 118"),
        ("E1234, E1235", "E1234 E1235"),
        ("dónde está la estación", "¿Dónde está la estación?"),
        ("what is a monad", "WHAT IS A MONAD?"),
        ("kind of blue please", "kind of blue"),
        ("Wow!", "wow"),
        ("is there a pharmacy", "is there pharmacy"),
    ],
)
def test_what_asks_the_same(one: str, other: str) -> None:
    """Politeness, marks, articles, frames and short forms are no difference."""
    assert paraphrases(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("who signed it", "when signed it"),
        ("what is the museum", "where is the museum"),
        ("vitamin A", "vitamin"),
        ("symptoms of hepatitis a today", "symptoms of hepatitis today"),
        ("who plays in A flat", "who plays in flat"),
        ("a few people came", "few people came"),
        ("in the front of the car", "in front of the car"),
        ("10²", "102"),
        ("H₂O", "H2 O"),
        ("5!", "5"),
        ("what is n!", "what is n"),
        ("n!", "n"),
        ("how do I get a in math", "how do I get in math"),
        ("results for a level exams", "results for level exams"),
        ("when did the who tour", "when did who tour"),
        ("cd ..", "cd ."),
        ("C++", "C"),
        ("-5", "5"),
        ("invoice 118", "invoices 118"),
        ("who is the director", "who was the director"),
        ("how do you say please", "how do you say"),
        ("how do I say thank you", "how do I say"),
        ("please please me", "please me"),
        ("hello world", "world"),
        ("how do you calculate the fee", "how do I calculate the fee"),
        ("who's left the company", "who is left the company"),
        ("Alkohol in Maßen", "Alkohol in Massen"),
        ("vuelos a Madrid", "vuelos Madrid"),
        ("what is", "what are"),
        ("please", "thanks"),
        ("tell me", "what is"),
    ],
)
def test_what_may_ask_something_else(one: str, other: str) -> None:
    """A word that could be more than a filler counts."""
    assert not paraphrases(one, other)
