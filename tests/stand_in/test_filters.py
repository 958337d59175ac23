"""Filters against a plain reading of payloads, on a Qdrant server, with and without indexes on their fields."""

from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.server import ServerClient
from tests import qdrant_server
from tests.operators.access.test_filters_engine import INDEXED, KINDS, agrees
from tests.operators.clients.qdrant_edge.engine_requests import CREATED
from tests.tiers import sized

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with one collection for each kind of index, named after it."""
    with (
        qdrant_server.running(tmp_path_factory.mktemp("filters") / "server") as url,
        httpx.Client(base_url=url) as http,
    ):
        for kind in KINDS:
            http.put(f"/collections/{kind}", json=CREATED).raise_for_status()
            for name in INDEXED if kind else ():
                index = {"field_name": name, "field_schema": kind}
                http.put(f"/collections/{kind}/index?wait=true", json=index).raise_for_status()
        yield url


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=sized(3, nightly=15))
@given(data=st.data())
def test_a_filter_finds_what_a_plain_reading_finds(url: str, kind: str | None, data: st.DataObject) -> None:
    """For random payloads and filters a server finds the documents that pass when read one by one, and no others."""
    agrees(lambda: ServerClient(Endpoint("qdrant", url, http_transport())), kind, data)
