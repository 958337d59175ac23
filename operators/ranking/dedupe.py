"""Dedupe: documents with the same content are one result."""

import hashlib
from collections.abc import Sequence

from operators.ranking.candidate import Candidate, Payload
from operators.ranking.fusion import cut
from operators.ranking.run import Run
from schemas.document import COLUMNS, CONTENT
from schemas.normalization import nfkc
from schemas.recipes.stages import Dedupe


def fingerprint(text: str) -> int | None:
    """A 63-bit hash of the normalised content (NFKC, case-folded, white space folded); None if nothing is left.

    Indexing stores it in each payload, so that ranking reads no texts.
    """
    content = " ".join(nfkc(text).casefold().split())
    if not content:
        return None
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def content(payload: Payload) -> str:
    """The text columns that the payload has, joined as the index joins them."""
    texts = [value for value in map(payload.get, COLUMNS) if value and isinstance(value, str)]
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def dedupe(candidates: Sequence[Candidate], stage: Dedupe, run: Run) -> list[Candidate]:
    """Drop each candidate that has the content of an earlier one; a candidate without content is never a duplicate.

    Contents are compared by the fingerprint in the payload, or by that of its text where there is none.
    Source: memini's `search.Dedup`.
    """
    contents = [candidate.payload.get(CONTENT) for candidate in candidates]
    if set(map(type, contents)) - {int}:
        contents = [
            found if type(found) is int else fingerprint(content(candidate.payload))
            for candidate, found in zip(candidates, contents, strict=True)
        ]
    kept = list(candidates)
    if len(set(contents)) < len(contents):
        first = {found: place for place, found in reversed(list(enumerate(contents)))}
        kept = [
            each for place, each in enumerate(candidates) if contents[place] is None or first[contents[place]] == place
        ]
    kept = cut(kept, stage.limit)
    run.explain(stage, kept, (candidate.score for candidate in kept), {})
    return kept
