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
    return "\n".join(value for name in COLUMNS if isinstance(value := payload.get(name), str) and value)


def dedupe(candidates: Sequence[Candidate], stage: Dedupe, run: Run) -> list[Candidate]:
    """Drop each candidate that has the content of an earlier one; a candidate without content is never a duplicate.

    Contents are compared by the fingerprint in the payload, or by that of its text where there is none.
    Source: memini's `search.Dedup`.
    """
    seen: set[int] = set()
    kept = []
    for candidate in candidates:
        found = candidate.payload.get(CONTENT)
        if type(found) is not int:
            found = fingerprint(content(candidate.payload))
        if found is None or found not in seen:
            kept.append(candidate)
        if found is not None:
            seen.add(found)
    kept = cut(kept, stage.limit)
    run.explain(stage, kept, (candidate.score for candidate in kept), {})
    return kept
