"""Options of the Kafka client library: which are refused, and why."""

import pytest
from pydantic import ValidationError

from schemas.settings import KafkaSettings


@pytest.mark.parametrize("key", ["options", "consumer_options", "producer_options"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("isolation.level", "the guarantee of delivery depends on it"),
        ("enable.idempotence", "the guarantee of delivery depends on it"),
        ("transactional.id", "the guarantee of delivery depends on it"),
        ("request.required.acks", "the guarantee of delivery depends on it"),
        ("log.connection.close", "the guarantee of delivery depends on it"),
        ("group.id", "a key of the section kafka sets it"),
        ("metadata.broker.list", "a key of the section kafka sets it"),
        ("client.rack", "a key of the section kafka sets it"),
        ("sasl.password", "kafka.security_protocol, kafka.tls and kafka.sasl are for that"),
        ("ssl.key.pem", "kafka.security_protocol, kafka.tls and kafka.sasl are for that"),
        ("plugin.library.paths", "it loads code"),
        ("test.mock.num.brokers", "it is for tests of the library"),
        ("error.cb", "it is no value"),
        ("value.serializer", "it is no value"),
    ],
)
def test_what_may_not_be_given_is_named_with_the_reason(key: str, name: str, why: str) -> None:
    """Whichever key gives it; what may be given beside it is no part of the refusal."""
    with pytest.raises(ValidationError) as caught:
        KafkaSettings.model_validate({key: {"fetch.min.bytes": 1, name: "1"}})
    assert f"{key}: {name}: {why}" in str(caught.value)
    assert "fetch.min.bytes" not in str(caught.value)


@pytest.mark.parametrize("name", ["isolation_level", "log_level", "error_cb", "Acks", "acks ", ""])
def test_another_spelling_is_no_name(name: str) -> None:
    """The list can't be got round by it."""
    with pytest.raises(ValidationError):
        KafkaSettings.model_validate({"options": {name: "1"}})
