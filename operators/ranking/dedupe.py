"""Dedupe: two documents that say the same are one result."""

import hashlib
import unicodedata
from collections.abc import Sequence

from operators.ranking.candidate import CONTENT, Candidate


def fingerprint(text: str) -> int | None:
    """A 63-bit hash of the normalised content (NFKC, case-folded, white space folded); None if nothing is left.

    The index keeps it in each payload, so that ranking needs no texts.
    """
    content = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    if not content:
        return None
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def dedupe(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Drop each candidate whose content an earlier one has; one without content is never a duplicate."""
    seen: set[object] = set()
    kept = []
    for candidate in candidates:
        content = candidate.payload.get(CONTENT)
        if content is None or content not in seen:
            kept.append(candidate)
            seen.add(content)
    return kept
