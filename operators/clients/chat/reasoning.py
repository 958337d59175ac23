"""Thoughts in a chat model's text: a thought is never an answer, nor a part of one.

Servers that know the model give its thoughts in a field or in blocks of their own; others leave them in the text, in
the form that the model was trained to write. These forms are read, whatever the server:

- pairs of tags, in any case: `<think>…</think>`, `[THINK]…[/THINK]`, `◁think▷…◁/think▷`, `<|begin_of_thought|>…`,
  `<|START_THINKING|>…`, `<|channel>thought…<channel|>`, and the sentences that some models write in place of tags;
- an end without a beginning, where the chat template has written the beginning: all before it is thought;
- channels, `<|channel|>analysis<|message|>…<|end|>…<|channel|>final<|message|>…`: the last final message is the answer;
  so, too, where a server has taken the special tokens out, and `analysis…assistantfinal…` is left.

Only the end of its own form ends a thought, so that a thought may speak of tags. What remains is the answer; where tags
such as `<answer>` mark it, only what is between them. A thought without an end is unfinished, and no answer.
"""

import re
from typing import Final, NamedTuple


class Said(NamedTuple):
    """The answer in a model's text; `thought`: it also holds thoughts; `unfinished`: the last of them has no end."""

    answer: str
    thought: bool = False
    unfinished: bool = False


_TAGS: Final = (
    "think|thinking|thought|thoughts|reasoning|reason|reflection|analysis|scratchpad|antthinking|seed:think"
    "|explanation|rationale|justification"
)
_WORDS: Final = "(?:thought|thinking|think|reasoning)"

_PAIRS: Final = (
    (r"◁think▷", r"◁/think▷"),
    (rf"<\|(?:begin|start)_(?:of_)?{_WORDS}\|>", rf"<\|end_(?:of_)?{_WORDS}\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    # The second is what a server leaves of the first that takes special tokens out.
    (r"<\|channel>[ ]?thought|\Athought\n", r"<channel\|>"),
    (r"<details[ ]type=\"?reasoning\"?[^<>]{0,200}>", r"</details>"),
)
_SENTENCES: Final = (
    # The ends of these, which a document may hold, end only what they began.
    (r"\A\s*Here(?:[ ]is|'s)[ ]my[ ]thought[ ]process:", r"Here(?:[ ]is|'s)[ ]my[ ]response:"),
    (r"\A\s*Here[ ]are[ ]my[ ]reasoning[ ]steps:", r"\[BEGIN[ ]FINAL[ ]RESPONSE\]"),
)

_MARKS: Final = re.compile(
    rf"<(/?)({_TAGS})(?:\s[^<>]{{0,200}})?>|\[(/?)(think|thinking|reasoning)\]|"
    + "|".join(f"(?P<b{at}>{begin})|(?P<e{at}>{end})" for at, (begin, end) in enumerate(_PAIRS + _SENTENCES)),
    re.IGNORECASE,
)

_ENDS_OF_SENTENCES: Final = frozenset(str(len(_PAIRS) + at) for at in range(len(_SENTENCES)))

_ANSWER: Final = re.compile(
    r"(?:<(?:final_)?(?:answer|response|solution|output)>|<\|(?:begin_of_solution|start_response)\|>)(.*?)"
    r"(?:</(?:final_)?(?:answer|response|solution|output)>|<\|(?:end_of_solution|end_response)\|>|\Z)",
    re.IGNORECASE | re.DOTALL,
)

_CHANNELS: Final = ("<|channel|>", "<|message|>")
_MESSAGE: Final = re.compile(
    r"(?:<\|channel\|>[ ]{0,8}+([a-z]{0,32}+)[^<]{0,200}+)?(?:<\|constrain\|>[^<]{0,100})?<\|message\|>"
    r"(.*?)(?=<\|(?:end|return|call|start|channel|message)\|>|\Z)",
    re.DOTALL,
)
_BARE_CHANNELS: Final = re.compile(r"\A\s*(?:assistant)?analysis(?=[^\sa-z:])")
_BARE_FINAL: Final = "assistantfinal"


def read_answer(text: str) -> Said:
    """Read a model's text without its thoughts."""
    if any(token in text for token in _CHANNELS):
        return _read_channels(text)
    if bare := _BARE_CHANNELS.match(text):
        _, final, answer = text[bare.end() :].rpartition(_BARE_FINAL)
        return Said(answer if final else "", thought=True, unfinished=not final)
    kept: list[str] = []
    start, ending = 0, ""
    thought = False
    for mark in _MARKS.finditer(text):
        form, begins = _form(mark)
        if ending:
            if form == ending and not begins:
                start, ending = mark.end(), ""
            continue
        if not begins and form in _ENDS_OF_SENTENCES:
            continue
        thought = True
        if begins:
            kept.append(text[start : mark.start()])
            ending = form
        else:
            # All that came before it was thought, too.
            kept.clear()
            start = mark.end()
    if not ending:
        kept.append(text[start:])
    rest = "".join(kept)
    marked = [found[1] for found in _ANSWER.finditer(rest)]
    return Said("\n".join(marked) if marked else rest, thought, bool(ending))


def _form(mark: re.Match[str]) -> tuple[str, bool]:
    """The form of thoughts that a mark belongs to, and True if it begins one."""
    slash, tag, square_slash, square_tag = mark.groups()[:4]
    if tag is not None:
        return f"<{tag.lower()}", not slash
    if square_tag is not None:
        return f"[{square_tag.lower()}", not square_slash
    kind = mark.lastgroup or ""
    return kind[1:], kind[:1] == "b"


def _read_channels(text: str) -> Said:
    finals = [body for channel, body in _MESSAGE.findall(text) if channel in {"", "final"}]
    return Said(finals[-1] if finals else "", thought=True, unfinished=not finals)
