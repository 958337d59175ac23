"""A CloudEvent in structured mode whose content type is missing."""

from dataclasses import replace

import pytest

from schemas.errors import InputError
from tests.operators.query.test_cloud_event import DECODE, structured


def test_an_envelope_without_its_header() -> None:
    """It is refused with the header that is missing, not with a list of fields that no query has."""
    with pytest.raises(InputError, match="an event with a specversion is read by its header content-type") as caught:
        DECODE(replace(structured(), headers=()))
    assert caught.value.field == "content-type"
