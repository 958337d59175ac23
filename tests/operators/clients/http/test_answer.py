"""An HTTP answer is the same however its bytes come, and what isn't one is told."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.clients.http.answer import LONGEST_HEAD, Answer, NotHttp

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
UNTIL_END = b"HTTP/1.1 200 OK\r\n\r\nhello"
EARLY = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + LENGTH


def fed(data: bytes, cuts: list[int]) -> Answer:
    """What comes of these bytes, cut at these places."""
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    answer = Answer()
    for start, end in pairwise(places):
        answer.feed(data[start:end])
    return answer


@given(st.sampled_from([LENGTH, CHUNKED, UNTIL_END, EARLY]), st.lists(st.integers(0, 400), max_size=8))
@example(LENGTH, list(range(len(LENGTH))))
@example(EARLY, list(range(len(EARLY))))
def test_an_answer_is_the_same_however_it_comes(data: bytes, cuts: list[int]) -> None:
    """Status and body don't depend on where its bytes are cut; without a length its connection's end is its end."""
    answer = fed(data, cuts)
    assert answer.complete is (data is not UNTIL_END)
    assert answer.end()
    assert (answer.status, answer.take(), answer.refused) == (200, b"hello", False)
    assert answer.size == 0


def test_informational_answers_leave_nothing() -> None:
    """The headers are those of the answer itself."""
    assert fed(EARLY, []).headers == [(b"content-length", b"5"), (b"x-a", b"b")]


@pytest.mark.parametrize(
    ("data", "last"),
    [
        (LENGTH, False),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (LENGTH + LENGTH, True),
        (LENGTH + b"garbage", True),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", True),
    ],
)
def test_the_last_answer_of_a_connection_is_told(data: bytes, last: bool) -> None:
    """By its own word, or because more came than was asked for: the first answer counts all the same."""
    answer = fed(data, [])
    assert (answer.complete, answer.last) == (True, last)
    assert answer.take() in {b"hello", b""}


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 20 OK\r\n\r\n", LENGTH.replace(b"5", b"-5")])
def test_what_is_not_http_is_told(data: bytes) -> None:
    """As that, and not as a TLS alert."""
    with pytest.raises(NotHttp) as caught:
        fed(data, [])
    assert not caught.value.alert


@pytest.mark.parametrize("cuts", [[], list(range(0, 3 * LONGEST_HEAD, 1000))])
def test_a_head_has_a_bound(cuts: list[int]) -> None:
    """Many headers, or one that is long, whether they come at once or bit by bit."""
    for head in (b"X: " + b"a" * 2 * LONGEST_HEAD, b"X: aaaa\r\n" * (LONGEST_HEAD // 4)):
        with pytest.raises(NotHttp):
            fed(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n", cuts)


def test_a_refusal_is_known_before_its_body() -> None:
    """As soon as its head is there."""
    answer = fed(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\n", [])
    assert (answer.refused, answer.complete) == (True, False)
