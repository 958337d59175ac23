"""TLS and SASL against a real broker: who is let in, who isn't, and what is said about it."""

import base64
import copy
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest

from bench.kafka.broker import Broker
from bench.kafka.listeners import MECHANISMS, PASSWORD, unsigned_token
from bench.stubs import DIMENSION, stub_backends
from operators.delivery import topics
from operators.delivery.broker import reach
from operators.delivery.kafka_python.connection import connection
from operators.delivery.librdkafka.connection import security
from schemas.errors import ConfigError, FatalDelivery, RankstreamError
from schemas.settings import KafkaSettings
from tests.integration.deployment import Deployment, assert_each_once
from tests.proxy import Connection, Proxy

# kafka-python leaves the socket of a failed handshake to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <ssl\.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)

DOORS = [("TLS", None), ("MUTUAL", None), *((door, each) for door in ("SASL", "SASLTLS") for each in MECHANISMS)]
"""Each listener with each mechanism that it takes."""

Change = Callable[[dict[str, Any], Broker, Path], None]


def settings_for(broker: Broker, listener: str, mechanism: str | None) -> dict[str, Any]:
    """Section `kafka` as the settings' classes take it, secrets included."""
    settings = copy.deepcopy(broker.listeners.settings(listener, mechanism))
    for (section, name), value in broker.listeners.secrets(listener, mechanism).items():
        settings[section][name] = value
    return settings


@pytest.mark.parametrize(("listener", "mechanism"), DOORS)
def test_kafka_python_gets_in(
    secured: Broker, topic_names: Callable[[str], str], listener: str, mechanism: str | None
) -> None:
    """Through every listener an admin, a producer in a transaction and a consumer in a group do their work."""
    settings = KafkaSettings(**settings_for(secured, listener, mechanism))
    topic = topic_names("secured")
    secured.create_topic(topic, partitions=1)
    topics.require(settings, [topic])
    options = connection(settings)
    with kafka.KafkaProducer(transactional_id=topic, **options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"value")
        producer.commit_transaction()
    own = {"group_id": topic, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    consumer = kafka.KafkaConsumer(topic, **own, **options)
    assert [record.value for batch in consumer.poll(timeout_ms=20_000).values() for record in batch] == [b"value"]
    consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), DOORS)
def test_librdkafka_gets_in(
    secured: Broker, topic_names: Callable[[str], str], listener: str, mechanism: str | None
) -> None:
    """The same by librdkafka; no call of `poll` is needed for a token."""
    settings = KafkaSettings(**settings_for(secured, listener, mechanism))
    topic = topic_names("secured")
    secured.create_topic(topic, partitions=1)
    options = {"bootstrap.servers": settings.bootstrap_servers, **security(settings)}
    producer = confluent_kafka.Producer({**options, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.commit_transaction(20)
    consumer = confluent_kafka.Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    record = consumer.poll(20)
    consumer.close()
    assert record is not None
    assert record.value() == b"value"


def stranger(settings: dict[str, Any], broker: Broker, _: Path) -> None:
    """Trust another authority."""
    settings["tls"]["ca_file"] = str(broker.listeners.certificates.stranger)


def system(settings: dict[str, Any], *_: object) -> None:
    """Trust the system's authorities."""
    del settings["tls"]["ca_file"]


def other_host(settings: dict[str, Any], broker: Broker, _: Path) -> None:
    """Connect by a name that the certificate doesn't have."""
    settings["bootstrap_servers"] = settings["bootstrap_servers"].replace("localhost", "127.0.0.1")


def nobody(settings: dict[str, Any], *_: object) -> None:
    """Show no certificate."""
    for name in ("certificate_file", "key_file", "key_password"):
        del settings["tls"][name]


def wrong_password(settings: dict[str, Any], *_: object) -> None:
    """Mistype the password."""
    settings["sasl"]["password"] = f"not-{PASSWORD}"


def expired(settings: dict[str, Any], _: Broker, directory: Path) -> None:
    """Show a token of an hour ago."""
    (directory / "token").write_text(unsigned_token(-3600, canary="canary"))
    settings["sasl"]["token_file"] = directory / "token"


def forged(settings: dict[str, Any], _: Broker, directory: Path) -> None:
    """Show a token that claims to be signed."""
    claims = unsigned_token(3600, canary="canary").split(".")[1]
    header = base64.urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=").decode()
    (directory / "token").write_text(f"{header}.{claims}.canary")
    settings["sasl"]["token_file"] = directory / "token"


def plaintext(settings: dict[str, Any], *_: object) -> None:
    """Speak without TLS."""
    settings["security_protocol"] = settings["security_protocol"].replace("SASL_SSL", "SASL_PLAINTEXT")
    del settings["tls"]


REFUSED = [
    ("TLS", None, stranger, "certificate isn't accepted: unable to get local issuer certificate"),
    ("TLS", None, system, "certificate isn't accepted"),
    ("TLS", None, other_host, "certificate is not valid for '127.0.0.1'"),
    ("MUTUAL", None, nobody, "TLS: .*alert bad certificate"),
    *(
        (listener, mechanism, wrong_password, f"SASL {mechanism}: the broker (refuses|ends)")
        for listener in ("SASL", "SASLTLS")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    ),
    ("SASLTLS", "OAUTHBEARER", expired, "SASL OAUTHBEARER: the broker (refuses|ends)"),
    ("SASLTLS", "OAUTHBEARER", forged, "SASL OAUTHBEARER: the broker (refuses|ends)"),
    ("SASLTLS", "PLAIN", stranger, "certificate isn't accepted"),
    ("SASLTLS", "PLAIN", plaintext, "wants TLS"),
]


@pytest.mark.parametrize(("listener", "mechanism", "change", "said"), REFUSED)
def test_who_is_refused_is_told_why(
    secured: Broker, tmp_path: Path, listener: str, mechanism: str | None, change: Change, said: str
) -> None:
    """The first client that is made raises FatalDelivery with the symptom, at once, and without a secret."""
    document = settings_for(secured, listener, mechanism)
    change(document, secured, tmp_path)
    with pytest.raises(FatalDelivery, match=said) as caught:
        topics.require(KafkaSettings(**document), ["any"])
    assert document["bootstrap_servers"] in str(caught.value)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(("listener", "mechanism", "change", "_"), [*REFUSED[:5], REFUSED[10]])
def test_librdkafka_is_refused_too(
    secured: Broker,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    listener: str,
    mechanism: str | None,
    change: Change,
    _: str,
) -> None:
    """The same settings let librdkafka in nowhere, and nothing that it prints or raises holds a secret."""
    document = settings_for(secured, listener, mechanism)
    change(document, secured, tmp_path)
    settings = KafkaSettings(**document)
    with pytest.raises((confluent_kafka.KafkaException, FatalDelivery)) as caught:
        confluent_kafka.Producer(
            {"bootstrap.servers": document["bootstrap_servers"], **security(settings)}
        ).list_topics(timeout=3)
    printed = "".join(capfd.readouterr())
    assert "canary" not in printed + "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        ("SASL", r"\(wants SASL\): set kafka\.security_protocol to SASL_PLAINTEXT, and kafka\.sasl$"),
        ("TLS", r"TLS( does)?\): set kafka\.security_protocol to SSL"),
        ("SASLTLS", r"TLS( does)?\): set kafka\.security_protocol to SSL or SASL_SSL"),
    ],
)
def test_who_comes_without_security_is_told_what_the_listener_wants(secured: Broker, listener: str, said: str) -> None:
    """SASL, TLS, or both: at once, and not by a client's time-out."""
    with pytest.raises(FatalDelivery, match=said):
        reach(KafkaSettings(bootstrap_servers=f"localhost:{secured.listeners.ports[listener]}"))


@pytest.mark.parametrize(("listener", "mechanism"), DOORS)
def test_who_may_come_in_is_let_through(secured: Broker, listener: str, mechanism: str | None) -> None:
    """Credentials are the clients' business."""
    reach(KafkaSettings(**settings_for(secured, listener, mechanism)))


def test_a_name_is_not_checked_where_it_is_said(secured: Broker, tmp_path: Path) -> None:
    """`check_hostname: false` takes the certificate of another host, for both clients."""
    document = settings_for(secured, "TLS", None)
    other_host(document, secured, tmp_path)
    document["tls"]["check_hostname"] = False
    settings = KafkaSettings(**document)
    topics.require(settings, [])
    options = {"bootstrap.servers": settings.bootstrap_servers, **security(settings)}
    assert confluent_kafka.Producer(options).list_topics(timeout=20).brokers


@pytest.mark.parametrize(
    ("setting", "content", "said"),
    [
        ("ca_file", None, "No such file"),
        ("ca_file", b"canary", "no certificate"),
        ("certificate_file", b"canary", "no certificate"),
        ("key_file", b"canary", "not a PEM key"),
        ("key_password_file", b"canary", "not a PEM key that key_password opens"),
        ("key_password_file", None, "No such file"),
        ("key_password_file", b"canary\xff", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_by_its_setting(
    secured: Broker, tmp_path: Path, setting: str, content: bytes | None, said: str
) -> None:
    """Both clients' options are refused before anything connects, and the file isn't quoted."""
    document = settings_for(secured, "MUTUAL", None)
    if setting == "key_password_file":
        del document["tls"]["key_password"]
    document["tls"][setting] = path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    settings = KafkaSettings(**document)
    options: Callable[[], object]
    for options in (lambda: connection(settings), lambda: security(settings)):
        with pytest.raises(ConfigError, match=f"kafka.tls.key_(file|password_file)|kafka.tls.{setting}") as caught:
            options()
        assert said in str(caught.value)
        assert "canary" not in "".join(traceback.format_exception(caught.value))


def test_an_encrypted_key_without_a_password_asks_nobody(secured: Broker) -> None:
    """It is an error, not a prompt on the terminal that no one answers."""
    document = settings_for(secured, "MUTUAL", None)
    del document["tls"]["key_password"]
    with pytest.raises(ConfigError, match=r"kafka\.tls\.key_file"):
        connection(KafkaSettings(**document))


def test_a_renewed_token_is_shown_at_the_next_connection(secured: Broker, tmp_path: Path) -> None:
    """A client that was refused for its token gets in as soon as the file holds a good one, with the same options."""
    document = settings_for(secured, "SASLTLS", "OAUTHBEARER")
    expired(document, secured, tmp_path)
    settings = KafkaSettings(**document)
    with pytest.raises(RankstreamError):
        topics.require(settings, [])
    (tmp_path / "token").write_text(unsigned_token(3600))
    topics.require(settings, [])


class Listening(Proxy):
    """A proxy that keeps all that clients say."""

    def __init__(self, target_host: str, target_port: int) -> None:
        super().__init__(target_host, target_port)
        self.heard = b""

    async def _passed(self, connection: Connection, chunk: bytes, *, answer: bool) -> bytes:
        if not answer:
            self.heard += chunk
        return chunk


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_extensions_are_sent_with_the_token(secured: Broker, client: str) -> None:
    """A broker that wants SASL extensions, as Confluent Cloud does, gets them from both clients, and lets them in."""
    with Listening("localhost", secured.listeners.ports["SASL"]) as proxy:
        document = settings_for(secured, "SASL", "OAUTHBEARER")
        document["bootstrap_servers"] = f"127.0.0.1:{proxy.port}"
        document["sasl"]["extensions"] = {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}
        settings = KafkaSettings(**document)
        if client == "kafka-python":
            topics.require(settings, [])
        else:
            options = {"bootstrap.servers": settings.bootstrap_servers, **security(settings)}
            assert confluent_kafka.Producer(options).list_topics(timeout=20).brokers
    sent = proxy.heard.partition(b"\1auth=Bearer ")[2].partition(b"\1\1")[0].split(b"\1")
    assert sorted(sent[1:]) == [b"identityPoolId=pool-1", b"logicalCluster=lkc-1"]


@pytest.mark.both_clients
@pytest.mark.slow
@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_query_is_answered_over_sasl_ssl(
    secured: Broker, tmp_path: Path, topic_names: Callable[[str], str], mechanism: str, client: str
) -> None:
    """`rankstream run`, secured by YAML and the environment, answers each query once."""
    with stub_backends() as stubs:
        sections = {"qdrant": {"url": stubs.qdrant, "dimension": DIMENSION}}
        with Deployment.on(secured, tmp_path, topic_names, sections) as running:
            running.settings["kafka"] |= {**secured.listeners.settings("SASLTLS", mechanism), "client": client}
            for (section, name), value in secured.listeners.secrets("SASLTLS", mechanism).items():
                running.environment[f"RANKSTREAM_KAFKA__{section.upper()}__{name.upper()}"] = value
            flow = running.start()
            running.ask([{"query_id": f"q{n}", "text": "harbor"} for n in range(20)])
            assert_each_once(running, running.output_records(20))
            assert flow.terminate() == 0
