"""The additions of a platform team to the chart: alerts, dashboards, labels, zones, authorities, console, ingress."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.settings import load
from tests.deploy.chart import Rendered, render, rendered, template
from tests.deploy.monitoring import DASHBOARDS, RULES, RUNBOOKS

PLATFORM = "platform"
AUTHORITIES = "/etc/rankstream-authorities"


def test_the_alerts_are_those_that_are_shipped() -> None:
    """The PrometheusRule has every rule of deploy/prometheus, word for word, and the labels of the values."""
    rule = rendered(PLATFORM).one("PrometheusRule")
    shipped = yaml.safe_load(RULES.read_text())["groups"]
    urls = [each["annotations"].pop("runbook_url") for each in alerts(rule["spec"]["groups"])]
    assert rule["spec"]["groups"] == shipped
    assert len(urls) == len(alerts(shipped))
    assert {url.rpartition("/")[0] for url in urls} == {"https://example.com/docs/runbooks"}
    assert {url.rpartition("/")[2] for url in urls} <= {page.name for page in RUNBOOKS.glob("*.md")}
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def alerts(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules that alert."""
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_a_release_without_the_indexing_flow_does_not_alert_that_it_is_missing() -> None:
    """It runs elsewhere, where it has a release of its own, or not at all."""
    values = {"prometheusRule": {"enabled": True}, "indexing": {"enabled": False}}
    found = render("minimal", values).one("PrometheusRule")["spec"]["groups"]
    shipped = yaml.safe_load(RULES.read_text())["groups"]
    missing = {each["alert"] for each in alerts(shipped)} - {each["alert"] for each in alerts(found)}
    assert missing == {"RankstreamIndexingNotScraped"}


def test_without_an_address_no_alert_leads_anywhere() -> None:
    """An address that is not known is not made up."""
    found = render("minimal", {"prometheusRule": {"enabled": True}}).one("PrometheusRule")
    assert not any("runbook_url" in rule["annotations"] for rule in alerts(found["spec"]["groups"]))


def test_the_dashboards_are_those_that_are_shipped() -> None:
    """Each is a ConfigMap of its own, with the label and the annotations that Grafana's sidecar goes by."""
    found = [each for each in rendered(PLATFORM).of("ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"]]
    held = {name: json.loads(text) for each in found for name, text in each["data"].items()}
    assert held == {file.name: json.loads(file.read_text()) for file in DASHBOARDS}
    assert {each["metadata"]["annotations"]["grafana_folder"] for each in found} == {"search"}


def test_common_labels_are_on_all_objects_and_pods() -> None:
    """No selector has them, so that they can change."""
    found = rendered(PLATFORM)
    owned = [each for each in found.objects if each["metadata"]["name"] != "shop-more"]
    assert all(each["metadata"]["labels"]["example.com/owner"] == "search-team" for each in owned)
    assert all(workload.labels["example.com/owner"] == "search-team" for workload in found.workloads)
    for workload in found.flows:
        assert "example.com/owner" not in workload.object["spec"]["selector"]["matchLabels"]


def test_replicas_read_in_their_zone() -> None:
    """The rack of a replica is the label of its pod; a pod without the label reads from the leaders."""
    for workload in rendered(PLATFORM).flows:
        field = workload.variables["RANKSTREAM_KAFKA__RACK"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert field == "metadata.labels['topology.kubernetes.io/zone']"
    assert "RANKSTREAM_KAFKA__RACK" not in rendered("minimal").flow("search").variables
    unlabelled = load(None, {"kafka": {"rack": ""}, "qdrant": {"url": "http://q"}}).kafka
    assert unlabelled.options_of_consumers == {}


def test_each_backend_has_its_private_authority() -> None:
    """The certificate is mounted in those pods that ask the backend, and the setting names it there."""
    for workload in rendered(PLATFORM).workloads:
        named = {
            name: variable["value"]
            for name, variable in workload.variables.items()
            if name.endswith(("__TLS__CA", "__TLS__CA_FILE"))
        }
        wanted = {"RANKSTREAM_KAFKA__TLS__CA_FILE": f"{AUTHORITIES}/kafka/ca.crt"}
        if workload.component != "console":
            wanted["RANKSTREAM_QDRANT__TLS__CA"] = f"{AUTHORITIES}/qdrant/ca.crt"
        if workload.component in {"search", "indexing", "check"}:
            wanted["RANKSTREAM_SPARSE_ENCODER__TLS__CA"] = f"{AUTHORITIES}/sparse_encoder/ca.crt"
        if workload.component in {"search", "check"}:
            wanted["RANKSTREAM_CHAT__TLS__CA"] = f"{AUTHORITIES}/chat/bundle.pem"
        assert named == wanted, workload.component
        mounts = {mount["mountPath"] for mount in workload.container["volumeMounts"]}
        assert {path.rpartition("/")[0] for path in wanted.values()} == {
            path for path in mounts if path.startswith(AUTHORITIES)
        }


def test_the_authorities_are_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """rankstream takes each of these variables."""
    found = rendered(PLATFORM)
    for name, variable in found.flow("search").variables.items():
        if name.startswith("RANKSTREAM_") and "value" in variable:
            monkeypatch.setenv(name, variable["value"])
    path = tmp_path / "rankstream.yaml"
    path.write_text(found.configuration)
    settings = load(path)
    assert str(settings.kafka.tls.ca_file) == f"{AUTHORITIES}/kafka/ca.crt"
    assert str(settings.qdrant.tls.ca) == f"{AUTHORITIES}/qdrant/ca.crt"


def test_keda_trusts_the_same_authority() -> None:
    """It reads the Secret, or the ConfigMap, that the pods mount; and it sends the same SASL extensions."""
    spec = rendered(PLATFORM).one("TriggerAuthentication")["spec"]
    assert {"parameter": "ca", "name": "kafka-ca", "key": "ca.crt"} in spec["secretTargetRef"]
    assert {"parameter": "oauthExtensions", "name": "KEDA_OAUTH_EXTENSIONS"} in spec["env"]
    variables = rendered(PLATFORM).flow("search").variables
    assert variables["KEDA_OAUTH_EXTENSIONS"]["value"] == "identityPoolId=pool-1,logicalCluster=lkc-1"
    public = render(PLATFORM, {"authorities": {"kafka": {"secret": None, "configMap": "company-ca"}}})
    spec = public.one("TriggerAuthentication")["spec"]
    assert spec["configMapTargetRef"] == [{"parameter": "ca", "name": "company-ca", "key": "ca.crt"}]


def test_the_console_is_reached_through_the_proxy_alone() -> None:
    """The console listens on loopback; the Service and the policy lead to the proxy's port and to nothing else."""
    found = rendered(PLATFORM)
    [console] = [each for each in found.workloads if each.component == "console"]
    assert console.container["args"][-6:-2] == ["--port", "8082", "--origin", "https://console.example.com"]
    assert "ports" not in console.container
    assert [each["name"] for each in console.pod["containers"]] == ["console", "proxy"]
    [service] = [each for each in found.of("Service") if each["metadata"]["name"].endswith("-console")]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == [4180]
    assert service["spec"]["selector"].items() <= console.labels.items()
    spec = policy_of_the_console(found)
    assert spec["podSelector"]["matchLabels"].items() <= console.labels.items()
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == [4180]
    assert spec["ingress"][0]["from"]
    assert spec["egress"] == [{"ports": [{"protocol": "TCP", "port": 443}]}]


def test_the_ingress_leads_to_the_proxy_over_tls() -> None:
    """It has the host of the address that browsers see, without a port, and the Service of the proxy behind it."""
    found = render(PLATFORM, {"console": {"origin": "https://console.example.com:8443"}})
    ingress = found.one("Ingress")
    [service] = [each for each in found.of("Service") if each["metadata"]["name"].endswith("-console")]
    [rule] = ingress["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert (rule["host"], path["path"], path["pathType"]) == ("console.example.com", "/", "Prefix")
    [port] = [each["name"] for each in service["spec"]["ports"]]
    assert path["backend"]["service"] == {"name": service["metadata"]["name"], "port": {"name": port}}
    assert ingress["spec"]["tls"] == [{"hosts": ["console.example.com"], "secretName": "console-tls"}]
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["metadata"]["annotations"] == {"cert-manager.io/cluster-issuer": "company"}


def test_an_ingress_may_leave_class_and_certificate_to_the_cluster() -> None:
    """It is over TLS all the same, and a console without one has none."""
    ingress = render("minimal", {"console": CONSOLE | {"ingress": {"enabled": True}}}).one("Ingress")
    assert ingress["spec"]["tls"] == [{"hosts": ["c.example.com"]}]
    assert "ingressClassName" not in ingress["spec"]
    assert not render("minimal", {"console": CONSOLE}).of("Ingress")


def policy_of_the_console(found: Rendered) -> dict[str, Any]:
    """The specification of its NetworkPolicy."""
    [only] = [each for each in found.of("NetworkPolicy") if each["metadata"]["name"].endswith("-console")]
    return dict(only["spec"])


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({}, {"emptyDir": {}}),
        ({"persistentVolumeClaim": {"claimName": "grades"}}, {"persistentVolumeClaim": {"claimName": "grades"}}),
    ],
)
def test_grades_have_a_place_that_can_be_written(given: dict[str, Any], source: dict[str, Any]) -> None:
    """The console's only writable volume holds its file; one process at a time has it, with the group of the image."""
    found = render(PLATFORM, {"console": {"judgements": given}})
    [console] = [each for each in found.workloads if each.component == "console"]
    flag, file = console.container["args"][-2:]
    assert flag == "--judgements"
    [mount] = [each for each in console.container["volumeMounts"] if not each.get("readOnly")]
    assert Path(file).parent == Path(mount["mountPath"])
    assert {"name": mount["name"], **source} in console.pod["volumes"]
    assert console.pod["securityContext"]["fsGroup"] == console.pod["securityContext"]["runAsGroup"]
    [deployment] = [each for each in found.of("Deployment") if each["metadata"]["name"].endswith("-console")]
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert "fsGroup" not in found.flow("search").pod["securityContext"]


def test_more_objects_may_hold_templates() -> None:
    """They are part of the release, and can be named after it."""
    assert "shop-more" in {each["metadata"]["name"] for each in rendered(PLATFORM).of("ConfigMap")}


CONSOLE = {"enabled": True, "origin": "https://c.example.com", "proxy": {"name": "proxy"}}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a key that there is not": (
        {"config": {"qdrant": {"dimensions": 4}}},
        "'/config/qdrant': additional properties 'dimensions'",
    ),
    "a section that there is not": ({"config": {"kafak": {}}}, "'/config': additional properties 'kafak'"),
    "a deep key": (
        {"config": {"kafka": {"sasl": {"user": "x"}}}},
        "'/config/kafka/sasl': additional properties 'user'",
    ),
    "a value of another type": (
        {"config": {"kafka": {"partitions": "many"}}},
        "'/config/kafka/partitions': got string",
    ),
    "a value out of its range": (
        {"config": {"kafka": {"session_timeout": 60}}},
        "'/config/kafka/session_timeout': maximum",
    ),
    "a value that is none of the choices": ({"config": {"delivery": {"mode": "twice"}}}, "'/config/delivery/mode'"),
    "no source of an authority": ({"authorities": {"qdrant": {"key": "ca.crt"}}}, "authorities.qdrant: set one of"),
    "an authority of nothing": ({"authorities": {"cache": {"secret": "s", "key": "k"}}}, "cache"),
    "two authorities": (
        {"authorities": {"qdrant": {"secret": "s", "key": "k"}}, "config": {"qdrant": {"tls": {"ca": "/ca.pem"}}}},
        "authorities.qdrant, config.qdrant.tls.ca: set one of them",
    ),
    "two racks": ({"rackLabel": "zone", "config": {"kafka": {"rack": "a"}}}, "rackLabel, config.kafka.rack: set one"),
    "a console that anybody may use": (
        {"console": CONSOLE | {"proxy": None}},
        "console.proxy: the console authenticates",
    ),
    "an ingress to a console that anybody may use": (
        {"console": CONSOLE | {"proxy": None, "ingress": {"enabled": True}}},
        "console.proxy: the console authenticates nobody; name the container of a proxy that does",
    ),
    "an ingress to nothing": (
        {"console": {"ingress": {"enabled": True}}},
        "console.ingress.enabled: there is no console to lead to; set console.enabled",
    ),
    "an ingress in clear": (
        {"console": CONSOLE | {"origin": "http://c.example.com", "ingress": {"enabled": True}}},
        "console.origin: an Ingress needs https",
    ),
    "a console without its address": ({"console": CONSOLE | {"origin": ""}}, "console.origin: set it to the address"),
    "KEDA with AWS": (
        {
            "config": {
                "kafka": {
                    "security_protocol": "SASL_SSL",
                    "sasl": {"mechanism": "OAUTHBEARER", "aws_region": "eu-central-1"},
                }
            },
            "search": {"autoscaling": {"enabled": True}},
        },
        "config.kafka.sasl.aws_region: KEDA needs an AWS identity of its own; set keda.triggerAuthentication",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_by_name(case: str) -> None:
    """Helm renders nothing, and names the value."""
    values, said = REFUSED[case]
    done = template("minimal", values)
    assert done.returncode != 0
    assert said in done.stderr


def test_keda_signs_for_amazon_msk() -> None:
    """With an authentication of its own, KEDA is told the region and how tokens are made."""
    sasl = {"mechanism": "OAUTHBEARER", "aws_region": "eu-central-1"}
    values = {
        "config": {"kafka": {"security_protocol": "SASL_SSL", "sasl": sasl}},
        "search": {"autoscaling": {"enabled": True}},
        "keda": {"triggerAuthentication": "msk"},
    }
    [trigger] = render("minimal", values).one("ScaledObject")["spec"]["triggers"]
    wanted = {"sasl": "oauthbearer", "saslTokenProvider": "aws_msk_iam", "awsRegion": "eu-central-1", "tls": "enable"}
    assert trigger["metadata"].items() >= wanted.items()
