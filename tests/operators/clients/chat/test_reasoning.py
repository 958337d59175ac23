"""Thoughts in a model's text: whatever their form, they are no part of the answer."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.clients.chat import quote
from operators.clients.chat.reasoning import Said, read_answer

PAIRS = [
    *(
        (f"<{tag}>", f"</{tag}>")
        for tag in ("think", "thinking", "thought", "reasoning", "seed:think", "THINK", "Analysis")
    ),
    ('<think duration="3">', "</think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ('<details type="reasoning" done="true">', "</details>"),
]
LEADING = [
    ("thought\n", "<channel|>"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here's my thought process:", "Here's my response:"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    (
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
    ),
    ("<|channel|>commentary<|message|>", "<|end|><|channel|>final<|message|>"),
    ("analysisWe ", "assistantfinal"),
]
"""Forms that only begin a text."""

PLAIN = st.text(st.characters(exclude_characters="<>[]|◁▷"), max_size=60) | st.text("0123456789, \n.", max_size=30)
THOUGHTS = st.text(max_size=80) | st.lists(
    st.sampled_from(
        ["3, 1", "<think>", "</thinking>", "[/THINK]", "<answer>", "none", "2", "<", "[THINK]", "\n", "null"]
    )
).map(" ".join)


def plain(text: str) -> bool:
    """True if the text is no form of a thought by itself."""
    return read_answer(text) == Said(text)


@given(THOUGHTS, PLAIN, PLAIN, st.sampled_from(PAIRS))
def test_a_wrapped_thought_leaves_the_answer(thought: str, before: str, answer: str, pair: tuple[str, str]) -> None:
    """A thought in any form, before, behind or within an answer, reads like the answer alone."""
    assume(pair[1].lower() not in thought.lower() and plain(before + answer) and plain(before))
    begin, end = pair
    assert read_answer(f"{before}{begin}{thought}{end}{answer}") == Said(before + answer, thought=True)


@given(THOUGHTS, PLAIN, st.sampled_from(PAIRS))
def test_an_end_without_a_beginning_ends_a_thought(thought: str, answer: str, pair: tuple[str, str]) -> None:
    """All before a thought's end is thought: the template has opened it."""
    assume(plain(thought) and plain(answer))
    assert read_answer(f"{thought}{pair[1]}{answer}") == Said(answer, thought=True)


@given(THOUGHTS, PLAIN, st.sampled_from(LEADING))
def test_forms_that_begin_a_text(thought: str, answer: str, pair: tuple[str, str]) -> None:
    """Sentences and channels in place of tags are read as tags are."""
    begin, end = pair
    assume(not any(each.lower() in thought.lower() for each in (end, "<|", "assistantfinal")) and plain(answer))
    assert read_answer(f"{begin}{thought}{end}{answer}") == Said(answer, thought=True)


@given(THOUGHTS, st.sampled_from([*PAIRS, *LEADING]))
def test_a_thought_without_an_end_is_unfinished(thought: str, pair: tuple[str, str]) -> None:
    """A text that ends within its thought holds no answer, whatever numbers the thought has."""
    assume(not any(each.lower() in thought.lower() for each in (pair[1], "<|", "assistantfinal")))
    said = read_answer(pair[0] + thought)
    assert said.unfinished
    assert said.answer == ""


@given(st.text() | THOUGHTS)
def test_any_text_is_read(text: str) -> None:
    """The answer read of a text stands in it, and a text without thoughts is itself."""
    said = read_answer(text)
    if not said.thought and not re.search(r"<\w", text):
        assert said.answer == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>2</think><answer>3, 1</answer> or 4?", "3, 1"),
        ("<think>so <answer>2</answer></think><response>3, 1", "3, 1"),
        ("<|begin_of_thought|>2<|end_of_thought|><|begin_of_solution|>3, 1<|end_of_solution|>", "3, 1"),
        ("<answer>3</answer><answer>1</answer>", "3\n1"),
        ("<think>2</think>3<think>4</think>, 1", "3, 1"),
        ("<think>2 <think>4 </think> 5 </think>3, 1", "3, 1"),
        ("3, 1<|return|>", "3, 1<|return|>"),
        ("<|start|>assistant<|message|>3, 1<|return|>", "3, 1"),
        ("analysis: 3, 1", "analysis: 3, 1"),
        ("3 <explanation>has 2 cats</explanation>, 1", "3 , 1"),
    ],
)
def test_answers_are_found(text: str, answer: str) -> None:
    """The answer is what its tags mark, or what stands beside all thoughts."""
    said = read_answer(text)
    assert (said.answer, said.unfinished) == (answer, False)


TOKENS = st.lists(
    st.sampled_from([*(token for pair in [*PAIRS, *LEADING] for token in pair), "<answer>", "</answer>", " 2 ", "\n"])
).map("".join)


@given(st.text() | TOKENS)
def test_no_quoted_text_fakes_a_thought(text: str) -> None:
    """A model that repeats a document as it was quoted has said no thought, and marked no other answer, by that."""
    answer = f"3, 1\nDocument 2 says {quote(text)}"
    assert read_answer(answer) == Said(answer)
    assert read_answer(f"<think>{quote(text)}</think>3, 1") == Said("3, 1", thought=True)
