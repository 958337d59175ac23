"""The number of a flow's replicas: by its values, or by KEDA."""

from typing import Any

from schemas.settings import Settings
from tests.deploy.chart import Rendered, render, rendered
from tests.deploy.files import FLOWS

OAUTH: dict[str, Any] = {
    "config": {
        "kafka": {
            "sasl": {
                "mechanism": "OAUTHBEARER",
                "username": None,
                "password_file": None,
                "token_url": "https://login.example.com/token",
                "client_id": "rankstream",
                "scope": "kafka",
            }
        }
    },
    "secrets": {"kafka.sasl.client_secret": {"name": "issuer", "key": "client-secret"}},
}


def scaled(found: Rendered) -> dict[str, dict[str, Any]]:
    """The specification of each ScaledObject, by the StatefulSet that it scales."""
    return {item["spec"]["scaleTargetRef"]["name"]: item["spec"] for item in found.of("ScaledObject")}


def trigger(spec: dict[str, Any]) -> dict[str, Any]:
    """A ScaledObject's only trigger."""
    [only] = spec["triggers"]
    assert only["type"] == "kafka"
    return dict(only)


def authentication(found: Rendered) -> dict[str, Any]:
    """KEDA's source for each of its parameters: an entry of a Secret, or a variable of the pods and its value."""
    spec = found.one("TriggerAuthentication")["spec"]
    entries = {each["parameter"]: (each["name"], each["key"]) for each in spec.get("secretTargetRef", [])}
    variables = found.flow("search").variables
    return entries | {each["parameter"]: variables[each["name"]]["value"] for each in spec["env"]}


def test_all_replicas_have_work(chart: Rendered, configured: Settings) -> None:
    """There are no more replicas than partitions, whoever sets their number."""
    targets = scaled(chart)
    for workload in chart.flows:
        spec = targets.get(workload.object["metadata"]["name"])
        most = spec["maxReplicaCount"] if spec else workload.object["spec"]["replicas"]
        assert 1 <= most <= configured.kafka.partitions


def test_one_of_both_sets_the_replicas(chart: Rendered) -> None:
    """A StatefulSet that KEDA scales has no number that each upgrade would set again."""
    targets = scaled(chart)
    assert targets.keys() <= {workload.object["metadata"]["name"] for workload in chart.flows}
    for workload in chart.flows:
        assert ("replicas" in workload.object["spec"]) != (workload.object["metadata"]["name"] in targets)


def test_keda_scales_by_the_lag_of_the_flows_group(chart: Rendered, configured: Settings) -> None:
    """Group, topic and brokers are those of the configuration; KEDA counts only partitions that have a lag."""
    groups = {
        "search": (configured.kafka.group_id, configured.kafka.topics.queries),
        "indexing": (configured.kafka.indexing.group_id, configured.kafka.topics.documents),
    }
    for name, spec in scaled(chart).items():
        metadata = trigger(spec)["metadata"]
        assert (metadata["consumerGroup"], metadata["topic"]) == groups[name.rpartition("-")[2]]
        assert metadata["bootstrapServers"] == configured.kafka.bootstrap_servers
        assert metadata["limitToPartitionsWithLag"] == "true"
        # Together with limitToPartitionsWithLag KEDA refuses these.
        assert not {"allowIdleConsumers", "ensureEvenDistributionOfPartitions"} & metadata.keys()
        # As the flows begin where nothing is committed.
        assert metadata["offsetResetPolicy"] == "earliest"
        # KEDA takes strings only.
        assert all(isinstance(value, str) for value in metadata.values())


def test_a_reindexed_flow_has_the_group_of_its_collection() -> None:
    """The group that the values name stands in place of that of the configuration, for this flow alone."""
    named = {"indexing": {"autoscaling": {"consumerGroup": "shop-indexing-documents-2"}}}
    before, after = (
        {name: trigger(spec)["metadata"]["consumerGroup"] for name, spec in scaled(chart).items()}
        for chart in (rendered("everything"), render("everything", named))
    )
    assert after == {**before, "shop-search-indexing": "shop-indexing-documents-2"}


def test_keda_stays_within_the_bounds_of_the_values() -> None:
    """The fewest and the most replicas are those of the values; the most is the number of partitions by default."""
    bounds = {
        (set_, name): (spec["minReplicaCount"], spec["maxReplicaCount"])
        for set_ in ("everything", "managed-kafka")
        for name, spec in scaled(rendered(set_)).items()
    }
    assert bounds == {
        ("everything", "shop-search-search"): (2, 12),
        ("everything", "shop-search-indexing"): (0, 12),
        ("managed-kafka", "shop-rankstream-search"): (1, 6),
    }


def test_the_minimal_chart_needs_no_keda() -> None:
    """Without autoscaling there is nothing of KEDA."""
    assert not scaled(rendered("minimal"))
    assert len(rendered("minimal").flows) == len(FLOWS)


def test_keda_reads_an_open_kafka_without_credentials() -> None:
    """With PLAINTEXT there is no TriggerAuthentication, and no trigger asks for one."""
    for spec in scaled(rendered("everything")).values():
        assert "authenticationRef" not in trigger(spec)
        assert not {"tls", "sasl"} & trigger(spec)["metadata"].keys()


def test_keda_reads_a_secured_kafka_with_what_the_pods_use() -> None:
    """Certificates and passwords are the Secrets' entries behind the files that the configuration names."""
    found = rendered("managed-kafka")
    [spec] = scaled(found).values()
    assert trigger(spec)["authenticationRef"] == {"name": found.one("TriggerAuthentication")["metadata"]["name"]}
    assert trigger(spec)["metadata"].items() >= {"tls": "enable", "sasl": "scram_sha512"}.items()
    assert authentication(found) == {
        "username": "rankstream",
        "password": ("rankstream-kafka", "password"),
        "ca": ("rankstream-kafka", "ca.pem"),
        "cert": ("rankstream-kafka", "client.pem"),
        "key": ("rankstream-kafka", "client.key"),
        "keyPassword": ("kafka-key", "password"),
    }


def test_keda_gets_tokens_as_the_pods_do() -> None:
    """With OAUTHBEARER, KEDA asks the same issuer, with the same client."""
    found = render("managed-kafka", OAUTH)
    [spec] = scaled(found).values()
    assert trigger(spec)["metadata"]["sasl"] == "oauthbearer"
    ours = authentication(found)
    assert {name: ours[name] for name in ("username", "password", "oauthTokenEndpointUri", "scopes")} == {
        "username": "rankstream",
        "password": ("issuer", "client-secret"),
        "oauthTokenEndpointUri": "https://login.example.com/token",
        "scopes": "kafka",
    }


def test_keda_can_have_credentials_of_its_own() -> None:
    """A TriggerAuthentication that exists is used in place of the chart's."""
    found = render("managed-kafka", {"keda": {"triggerAuthentication": "kafka-lag"}})
    [spec] = scaled(found).values()
    assert trigger(spec)["authenticationRef"] == {"name": "kafka-lag"}
    assert not found.of("TriggerAuthentication")


def test_keda_reads_a_kafka_with_a_public_authority() -> None:
    """Without a certificate or password there is nothing to name; KEDA refuses an object without a specification."""
    values = {"config": {"kafka": {"security_protocol": "SSL"}}, "search": {"autoscaling": {"enabled": True}}}
    found = render("minimal", values)
    [spec] = scaled(found).values()
    assert trigger(spec)["metadata"]["tls"] == "enable"
    assert found.one("TriggerAuthentication")["spec"] == {}


def test_a_topic_that_is_a_number_is_a_string() -> None:
    """KEDA takes strings only."""
    kafka = {"group_id": "7", "topics": {"queries": "123"}}
    found = render("minimal", {"config": {"kafka": kafka}, "search": {"autoscaling": {"enabled": True}}})
    [spec] = scaled(found).values()
    assert {name: trigger(spec)["metadata"][name] for name in ("topic", "consumerGroup")} == {
        "topic": "123",
        "consumerGroup": "7",
    }
