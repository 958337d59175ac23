"""The chart's NetworkPolicy: the traffic that it allows, and Prometheus's scrapes."""

from typing import Any

import pytest

from tests.deploy.chart import Rendered, render, rendered

PROTOCOLS = {"TCP", "UDP"}


def policy(found: Rendered) -> dict[str, Any]:
    """The specification of the NetworkPolicy of all pods."""
    component = "app.kubernetes.io/component"
    [only] = [each for each in found.of("NetworkPolicy") if component not in each["metadata"]["labels"]]
    return dict(only["spec"])


def allowed(found: Rendered) -> list[tuple[set[tuple[str, int]], Any]]:
    """Each rule of what pods may connect to: ports by protocol, and peers (None: every address)."""
    rules = policy(found)["egress"]
    return [({(port["protocol"], port["port"]) for port in rule.get("ports", [])}, rule.get("to")) for rule in rules]


def test_the_policy_is_about_all_pods_and_both_directions(chart: Rendered) -> None:
    """The policy denies all other traffic: for every pod of the release, in and out."""
    assert sorted(policy(chart)["policyTypes"]) == ["Egress", "Ingress"]
    selector = policy(chart)["podSelector"]["matchLabels"]
    assert all(selector.items() <= workload.labels.items() for workload in chart.workloads)


def test_only_the_health_port_is_open(chart: Rendered) -> None:
    """Nothing reaches a pod but probes and scrapes."""
    [rule] = policy(chart)["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": "health"}]


def test_scrapes_can_be_bound_to_their_source() -> None:
    """The peers of the values are the only ones that may scrape."""
    [rule] = policy(rendered("everything"))["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert "from" not in policy(rendered("minimal"))["ingress"][0]


def test_pods_reach_what_is_configured_and_nothing_else() -> None:
    """Worked by hand: the ports in the minimal configuration, and name servers."""
    dns = {(protocol, 53) for protocol in PROTOCOLS}
    assert allowed(rendered("minimal")) == [(dns, None), ({("TCP", 9092)}, None), ({("TCP", 6333)}, None)]


def test_values_narrow_and_correct_what_is_configured() -> None:
    """Worked by hand: ports that differ from the configuration, peers, and rules as they are."""
    dns = {(protocol, 53) for protocol in PROTOCOLS}
    name_servers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]

    def by_ports(rule: tuple[set[tuple[str, int]], object]) -> tuple[list[tuple[str, int]], str]:
        ports, peers = rule
        return sorted(ports), str(peers)

    assert sorted(allowed(rendered("everything")), key=by_ports) == sorted(
        [
            (dns, name_servers),
            ({("TCP", 9092)}, None),
            ({("TCP", 6333)}, None),
            ({("TCP", 8081)}, None),
            ({("TCP", 8080)}, None),
            ({("TCP", 8080)}, [{"podSelector": {"matchLabels": {"app": "reranker"}}}]),
            ({("TCP", 443)}, None),
            ({("TCP", 4318)}, None),
            (set(), [{"ipBlock": {"cidr": "10.0.0.0/8"}}]),
        ],
        key=by_ports,
    )
    assert ({("TCP", 9096), ("TCP", 9097), ("TCP", 9098)}, None) in allowed(rendered("managed-kafka"))


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://q", 80),
        ("https://q", 443),
        ("https://q/v1", 443),
        ("http://q:8080/v1", 8080),
        ("http://[fd00::1]:6333", 6333),
        ("http://[fd00::1]", 80),
    ],
)
def test_a_url_has_the_port_of_its_scheme(url: str, port: int) -> None:
    """The port is that in the URL, or the scheme's."""
    assert ({("TCP", port)}, None) in allowed(render("minimal", {"config": {"qdrant": {"url": url}}}))


def test_the_issuer_of_tokens_is_reached() -> None:
    """With OAuth 2 client credentials the pods may connect to the issuer."""
    sasl = {
        "mechanism": "OAUTHBEARER",
        "token_url": "https://login.example.com:8443/token",
        "client_id": "c",
        "client_secret_file": "/etc/s",
    }
    kafka = {"security_protocol": "SASL_SSL", "sasl": sasl}
    assert ({("TCP", 8443)}, None) in allowed(render("minimal", {"config": {"kafka": kafka}}))


def test_the_schema_registry_is_reached() -> None:
    """The pods may connect to it once it is configured."""
    kafka = {"schema_registry": {"url": "http://registry:8081"}}
    assert ({("TCP", 8081)}, None) in allowed(render("minimal", {"config": {"kafka": kafka}}))
    assert ({("TCP", 8081)}, None) not in allowed(render("minimal"))


def test_the_policy_can_be_left_out() -> None:
    """A cluster with policies of its own needs none of the chart."""
    assert not render("minimal", {"networkPolicy": {"enabled": False}}).of("NetworkPolicy")


def test_prometheus_scrapes_the_health_port() -> None:
    """The ServiceMonitor selects the Services of both flows, by their labels and the name of their port."""
    found = rendered("everything")
    monitor = found.one("ServiceMonitor")
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint == {"port": "health", "path": "/metrics", "interval": "30s"}
    selector = monitor["spec"]["selector"]["matchLabels"]
    for service in found.of("Service"):
        assert selector.items() <= service["metadata"]["labels"].items()
        assert {port["name"] for port in service["spec"]["ports"]} == {"health"}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert not rendered("minimal").of("ServiceMonitor")


def test_brokers_without_a_port_have_kafkas() -> None:
    """A number at the end of a host's name is no port."""
    rules = allowed(render("minimal", {"config": {"kafka": {"bootstrap_servers": "kafka-0, kafka1,kafka:9094"}}}))
    assert {port for ports, _ in rules for _, port in ports} == {53, 9092, 9094, 6333}


def test_what_signs_tokens_for_aws_is_reached() -> None:
    """AWS's token service, and the pod's identity: no URL of these is in the configuration."""
    kafka = {"security_protocol": "SASL_SSL", "sasl": {"mechanism": "OAUTHBEARER", "aws_region": "eu-central-1"}}
    rules = allowed(render("minimal", {"config": {"kafka": kafka}}))
    assert ({("TCP", 443), ("TCP", 80)}, None) in rules
