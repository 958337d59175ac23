"""Folding: one form for characters that readers take for the same."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.text.folding import fold, fold_accents, fold_umlauts, lower_turkish

WRITTEN = st.text("aB1 -×²½ﬁ™㎏…é\u00ad\u0301\uff76\uff9eＷ１\u0640أي٣ﷺšИёİ’–”") | st.text()
"""Texts whose characters stay, move, go and become several."""


def plain(text: str) -> str:
    """NFKC and digits character by character; half-width kana with their sound marks."""
    forms = []
    for found in re.finditer("(?s:.[\uff9e\uff9f]|.)", text):
        form = unicodedata.normalize("NFKC", found[0])
        forms.append("".join(str(unicodedata.decimal(each, each)) for each in form))
    return "".join(forms)


def reduced(text: str) -> str:
    """The text without what folding decides by its own tables: signs, marks, spaces, and letters of these scripts."""
    kept = (each for each in text if unicodedata.category(each)[0] in "LN")
    return "".join(
        each for each in kept if not re.match("[\u02bb\u02bc\u0600-\u06ffЁёеİI\u0e32\u0e33\u0eb2\u0eb3x]", each)
    )


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        *[("ＷＨ－１０００ＸＭ５　ｶﾞﾗｽ", "WH-1000XM5 ガラス"), ("ﬁlter éﬃ", "filter éffi"), ("CO₂, m²", "CO2, m2")],
        *[("5㎏ Ⅳ", "5 kg IV"), ("½ 2½", " 1/2 2 1/2"), ("10² 10⁻³ x²", "10 2 10-3 x2"), ("Word™", "Word TM")],
        *[("٣ १२ 𝟙", "3 12 1"), ("٢٫٥", "2.5"), ("🚀 ①", "🚀 1")],
        *[("soft\u00adware zero\u200bwidth \ufeffx\u2060y", "software zerowidth xy"), ("за\u0301мок", "замок")],
        *[("M8×30, 5 × 60, 2×USB, a×b, × 4, ½×3", "M8x30, 5 x 60, 2×USB, a×b, × 4,  1/2x3")],
        *[("a–b—c−d‐e", "a-b-c-d-e"), ("O’Reilly O´Reilly Oʼreilly", "O'Reilly O'Reilly O'reilly")],
        *[("6.7” 6.7″", '6.7" 6.7"'), ("wait… what", "wait; what")],
        *[("كِتَاب كـــتاب", "كتاب كتاب"), ("أحمد إلى آب مكتبة", "احمد الي اب مكتبه"), ("کتاب ی", "كتاب ي")],
        *[("שָׁלוֹם", "שלום"), ("ёлка Ёж", "елка Еж"), ("İzmir", "Izmir"), ("กินน้ำ", "กินน้ำ")],
        *[("café Łódź ñandú", "café Łódź ñandú"), ("किताब", "किताब"), ("plain text, 2.5", "plain text, 2.5")],
    ],
)
def test_folding_by_hand(written: str, folded: str) -> None:
    """Scripts by their rules; accents on letters stay, and what only looks alike."""
    assert fold(written).text == folded


@given(WRITTEN)
@example("A ﬁne soft\u00adware")
@example("½\u200b\u200b\u200b1")
def test_each_character_knows_its_place(text: str) -> None:
    """The origin of a folded character is at its place: the fold of that part has it, and places are in order."""
    folded = fold(text)
    places = [folded.locate(at, at + 1) for at in range(len(folded.text))]
    assert places == sorted(places)
    for (start, end), character in zip(places, folded.text, strict=True):
        assert 0 <= start < end <= len(text)
        assert end - start <= 2
        # The × between digits, and the space before a raised digit, come from their neighbours.
        assert character in fold(text[start:end]).text or text[start] == "×" or character == " "


@given(WRITTEN)
def test_letters_and_digits_are_those_of_a_plain_reading(text: str) -> None:
    """Apart from the tables of signs and scripts it is NFKC of each character."""
    assert reduced(fold(text).text) == reduced(plain(text))


@given(WRITTEN)
def test_a_folded_text_stays(text: str) -> None:
    """To fold it once more changes nothing."""
    folded = fold(text).text
    assert fold(folded).text == folded


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_stays(text: str) -> None:
    """Most texts cost nothing."""
    assert fold(text) == (text, None)


@given(st.text("aeouäöüßxÄÖÜ "))
def test_both_spellings_of_umlauts_are_one(text: str) -> None:
    """Whatever stands beside them."""
    spelt = text.lower().replace("ä", "ae").replace("ö", "oe").replace("ü", "ue").replace("ß", "ss")
    assert fold_umlauts(spelt) == fold_umlauts(text)


@given(st.text() | st.text("éàöüйñ e\u0301"))
def test_accents_are_folded_once(text: str) -> None:
    """A folded text has no more to fold."""
    assert fold_accents(fold_accents(text)) == fold_accents(text)


def test_turkish_has_two_letters() -> None:
    """`I` is the capital of `ı`, `İ` that of `i`."""
    assert lower_turkish("IŞIK İZMİR ışık izmir") == "ışık izmir ışık izmir"
