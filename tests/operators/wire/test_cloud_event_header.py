"""A CloudEvent in structured mode whose content type is missing."""

from dataclasses import replace

import pytest

from operators.wire.cloud_event import from_headers
from schemas.errors import InputError
from tests.operators.wire.test_cloud_event import DECODE, structured


def test_an_envelope_without_its_header() -> None:
    """It is refused with the header that is missing, not with a list of fields that no query has."""
    with pytest.raises(InputError, match="an event with a specversion is read by its header content-type") as caught:
        DECODE(replace(structured(), headers=()))
    assert caught.value.field == "content-type"


def test_an_attribute_that_looks_like_ascii_is_none() -> None:
    """The Kelvin sign is no k, in the header of an attribute as in an attribute of an envelope."""
    given = (("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"))
    assert from_headers((*given, ("CE_KIND", b"x"))).id == "1"
    with pytest.raises(InputError, match="not of a to z"):
        from_headers((*given, ("ce_\u212aind", b"x")))
