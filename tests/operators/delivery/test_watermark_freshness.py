"""A watermark that is committed is seen by whoever asks afterwards: real brokers, both clients, writers that race."""

import asyncio
import gc
import itertools
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import kafka
import pytest
from anyio.from_thread import start_blocking_portal

from bench.kafka.broker import Broker
from bench.ports import free_port
from operators.caching.watermark_table import WatermarkTable
from operators.delivery import topics
from operators.delivery.client import KafkaClient
from operators.delivery.embedded_broker import EmbeddedBroker
from operators.delivery.kafka_python import KafkaPython
from operators.delivery.librdkafka import Librdkafka
from operators.delivery.table_reader import WatermarkReader
from schemas.errors import BackendTimeout, BackendUnavailable
from schemas.settings import KafkaSettings, Topics
from tests.operators.delivery.catching_up import WITHIN, fails_at_once, on_a_loop, recovered
from tests.operators.delivery.transactions import indexing
from tests.proxy import Mode, Proxy
from tests.tiers import sized

pytestmark = pytest.mark.slow

WRITERS = 3
COMMITS = sized(100, nightly=300)
CALL_TIMEOUT = 0.3


@contextmanager
def reading(client: KafkaClient, settings: KafkaSettings, timeout: float) -> Iterator[WatermarkReader]:
    """A running reader of the watermarks topic, closed at the end."""
    reader = WatermarkReader(lambda: client.tail(settings.topics.watermarks), timeout, WatermarkTable())
    reader.start()
    try:
        yield reader
    finally:
        reader.close()


@contextmanager
def reading_twice(settings: KafkaSettings, timeout: float) -> Iterator[list[WatermarkReader]]:
    """A running reader by each client."""
    with (
        reading(Librdkafka(settings), settings, timeout) as one,
        reading(KafkaPython(settings), settings, timeout) as another,
    ):
        yield [one, another]


@contextmanager
def open_transactions(settings: KafkaSettings) -> Iterator[None]:
    """Most of the time a transaction is open in each partition; they end committed and aborted in turn."""
    enough = threading.Event()

    def write() -> None:
        with indexing(settings) as slow:
            for number in itertools.count():
                slow.write(b"c|slow|0", number, number % 2)
                enough.wait(0.2)
                if number % 2:
                    slow.abort()
                else:
                    slow.commit()
                if enough.is_set():
                    return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def test_what_is_committed_is_seen_by_whoever_asks_then(settings: KafkaSettings) -> None:
    """Writers in transactions race, others stay open: after each commit each client's reader has its offset."""
    with (
        start_blocking_portal() as portal,
        open_transactions(settings),
        reading_twice(settings, WITHIN) as readers,
        ThreadPoolExecutor(WRITERS) as pool,
    ):

        async def seen(namespace: str) -> list[tuple[str, ...]]:
            await asyncio.gather(*(reader.caught_up(WITHIN) for reader in readers))
            return [reader.of("c", namespace) for reader in readers]

        def write(writer: int) -> None:
            with indexing(settings) as indexer:
                for offset in range(COMMITS):
                    indexer.commit_one(f"c|{writer}|0".encode(), offset, writer % 2)
                    marks = portal.call(seen, str(writer))
                    assert marks == [(f"0:{offset}",)] * len(readers)

        for reader in readers:
            portal.call(recovered, reader)
        for _ in pool.map(write, range(WRITERS)):
            pass


@pytest.fixture(scope="module")
def behind_a_proxy(broker_tools: None) -> Iterator[tuple[Broker, Proxy]]:
    """A broker that clients reach by a proxy if they begin at the port."""
    port = free_port()
    with Proxy("127.0.0.1", port) as link, Broker(proxied=(port, link.port)) as broker:
        yield broker, link


@pytest.fixture
def refused_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python leaves them to the garbage collector, which mustn't find them in another test, nor in a log."""
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("mode", [Mode.HANG, Mode.REFUSE])
def test_an_outage_is_survived(behind_a_proxy: tuple[Broker, Proxy], refused_sockets: None, mode: Mode) -> None:
    """While the broker doesn't answer calls fail, after the first at once; then what was written meanwhile is seen."""
    broker, link = behind_a_proxy
    direct = KafkaSettings(bootstrap_servers=broker.bootstrap, topics=Topics(watermarks=f"marks-{mode}"), partitions=2)
    topics.create(direct)
    through = direct.model_copy(update={"bootstrap_servers": f"127.0.0.1:{link.port}"})

    @on_a_loop
    async def survive() -> None:
        with indexing(direct) as indexer, reading_twice(through, CALL_TIMEOUT) as readers:
            indexer.commit_one(b"c|n|0", 1)
            for reader in readers:
                await recovered(reader)
                assert reader.of("c", "n") == ("0:1",)
            link.switch(mode)
            indexer.commit_one(b"c|n|0", 2)
            for reader in readers:
                with pytest.raises((BackendTimeout, BackendUnavailable)):
                    await reader.caught_up(WITHIN)
            for _ in range(20):
                await asyncio.sleep(0.03)
                assert all(fails_at_once(reader) for reader in readers)
            link.switch(Mode.PASS)
            for reader in readers:
                await recovered(reader)
                assert reader.of("c", "n") == ("0:2",)

    try:
        survive()
    finally:
        link.switch(Mode.PASS)


@on_a_loop
async def test_the_embedded_broker_has_watermarks() -> None:
    """On the embedded broker each acknowledged watermark is seen by a call that comes after it."""
    with EmbeddedBroker() as broker:
        settings = broker.client_settings(Topics(watermarks="marks"))
        broker.create_topic("marks")
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, api_version=(2, 3))
        with reading(Librdkafka(settings), settings, WITHIN) as reader:
            await recovered(reader)
            for offset in range(200):
                future = producer.send("marks", b"%d" % offset, f"c|{offset % 3}|0".encode())
                await asyncio.to_thread(future.get, WITHIN)
                await reader.caught_up(WITHIN)
                assert reader.of("c", str(offset % 3)) == (f"0:{offset}",)
        producer.close()


def test_a_topic_that_is_made_anew_is_read_anew(settings: KafkaSettings) -> None:
    """After the topic was deleted and created again, what is written then is seen."""

    @on_a_loop
    async def follow() -> None:
        with reading_twice(settings, CALL_TIMEOUT) as readers:
            with indexing(settings) as indexer:
                for offset in range(5):
                    indexer.commit_one(b"c|n|0", offset)
            for reader in readers:
                await recovered(reader)
                assert reader.of("c", "n") == ("0:4",)
            admin = kafka.KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
            admin.delete_topics([settings.topics.watermarks])
            limit = time.monotonic() + WITHIN
            while settings.topics.watermarks in admin.list_topics():
                assert time.monotonic() < limit
            admin.close()
            topics.create(settings)
            with indexing(settings) as indexer:
                indexer.commit_one(b"c|n|0", 9)
            for reader in readers:
                while reader.of("c", "n") != ("0:9",):
                    assert time.monotonic() < limit
                    await recovered(reader)

    follow()
