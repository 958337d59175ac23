"""An HTTP answer is the same however its bytes come, and what isn't one is told."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.clients.http.connection import LONGEST_HEAD, HttpAnswer, NotHttp

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
UNTIL_END = b"HTTP/1.1 200 OK\r\n\r\nhello"
EARLY = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + LENGTH


def fed(data: bytes, cuts: list[int]) -> HttpAnswer:
    """The outcome of these bytes, cut at these places."""
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    answer = HttpAnswer()
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
        (b"HTTP/1.1 204 No Content\r\n\r\n", False),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", True),
        (CHUNKED.replace(b"1.1", b"1.0").replace(b"\r\n", b"\r\nConnection: keep-alive\r\n", 1), True),
        (LENGTH.replace(b"1.1", b"2.0").replace(b"\r\n", b"\r\nConnection: keep-alive\r\n", 1), True),
    ],
)
def test_the_last_answer_of_a_connection_is_told(data: bytes, last: bool) -> None:
    """By its own word, because more came than was asked for, or because nobody can know what belongs to it.

    The first answer counts all the same.
    """
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


ENDLESS = {
    "trailers": (CHUNKED[:-2], b"X-Trailer: aaaaaaaaaaaaaaaa\r\n"),
    "one trailer": (CHUNKED[:-2] + b"X-Trailer: ", b"a"),
    "an extension of a chunk": (CHUNKED[:-5] + b"2;", b"a"),
    "extensions of small chunks": (CHUNKED[:-5], b"1;" + b"a" * 1000 + b"\r\nx\r\n"),
    "informational answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "informational answers with a header": (b"", b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n"),
    "a reason": (b"HTTP/1.1 200 ", b"a"),
    "empty headers": (b"HTTP/1.1 200 OK\r\n", b"a:\r\n"),
    "empty lines": (b"", b"\r\n"),
    "zeros of a chunk's size": (CHUNKED[:-5], b"0"),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("read", [1000, 64 * 1024, 256 * 1024])
def test_what_is_no_body_has_a_bound(kind: str, read: int) -> None:
    """Whatever a server adds without end is refused after LONGEST_HEAD bytes and what one more reading brings."""
    begin, more = ENDLESS[kind]
    data = begin + more * (3 * max(LONGEST_HEAD, read) // len(more))
    with pytest.raises(NotHttp):
        fed(data[: LONGEST_HEAD + read + len(begin)], list(range(0, len(data), read)))


@given(st.integers(1, 40), st.integers(1, 4000))
@example(1, 100_000)
def test_small_chunks_are_a_body(size: int, count: int) -> None:
    """Chunks of a byte are framed by five: their framing is paid for, however many there are."""
    answer = fed(
        CHUNKED[:-5] + b"%x\r\n%b\r\n" % (size, b"x" * size) * count + CHUNKED[-5:], list(range(0, 10**6, 65_536))
    )
    assert (answer.complete, answer.last, answer.size) == (True, False, 5 + size * count)


def test_trailers_are_no_headers() -> None:
    """A field that describes the body is not read behind it."""
    trailers = b"Content-Encoding: gzip\r\nDate: never\r\n"
    answer = fed(CHUNKED[:-2] + trailers + CHUNKED[-2:], [])
    assert (answer.take(), answer.headers) == (b"hello", [(b"transfer-encoding", b"chunked")])


def test_a_refusal_is_known_before_its_body() -> None:
    """As soon as its head is there."""
    answer = fed(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\n", [])
    assert (answer.refused, answer.complete) == (True, False)
