"""The Kubernetes manifests, deploy/kubernetes/."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from schemas.settings import Settings, load
from tests.deploy.files import (
    FLOWS,
    KUBERNETES,
    MARGIN_S,
    STATEFUL_SETS,
    check_command,
    container,
    last_stage,
    manifests,
    pod,
    stateful_set,
    variables,
)

VERSIONS = ("1.31", kubernetes_validate.latest_version())
OBJECTS = [pytest.param(item, id="/".join(key)) for key, item in manifests().items()]
WORKLOADS = {"/".join(key): item for key, item in manifests().items() if key[0] in {"StatefulSet", "Job"}}
EVERY_WORKLOAD = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


@pytest.fixture
def configured(tmp_path: Path) -> Settings:
    """The settings in the ConfigMap."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(manifests()["ConfigMap", "rankstream"]["data"]["rankstream.yaml"])
    return load(path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("item", OBJECTS)
def test_manifests_are_valid(item: dict[str, Any], version: str) -> None:
    """The API server of an old and of a new cluster knows every field, and each has a value of its type."""
    kubernetes_validate.validate(item, version, strict=True)


def test_the_kustomization_has_every_manifest_and_the_image() -> None:
    """`kubectl apply -k` leaves no file out, and the image is named in one place."""
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    assert sorted([*kustomization["resources"], "kustomization.yaml"]) == sorted(p.name for p in KUBERNETES.iterdir())
    assert {image["name"] for image in kustomization["images"]} == {
        container(workload)["image"].partition(":")[0] for workload in WORKLOADS.values()
    }


@EVERY_WORKLOAD
def test_pods_are_restricted(workload: dict[str, Any]) -> None:
    """Pods satisfy the `restricted` Pod Security Standard, on a read-only file system."""
    context = pod(workload)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container(workload)["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in own
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod(workload).keys()


@EVERY_WORKLOAD
def test_pods_run_as_the_images_user(workload: dict[str, Any]) -> None:
    """The user and the group are those that the image was made for."""
    context = pod(workload)["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == last_stage().last("USER")


@EVERY_WORKLOAD
def test_pods_have_no_way_to_the_kubernetes_api(workload: dict[str, Any]) -> None:
    """They have an account of their own without a token, and no variables that describe other Services."""
    account = manifests()["ServiceAccount", pod(workload)["serviceAccountName"]]
    assert account["automountServiceAccountToken"] is False
    assert pod(workload)["automountServiceAccountToken"] is False
    assert pod(workload)["enableServiceLinks"] is False


@EVERY_WORKLOAD
def test_pods_keep_nothing(workload: dict[str, Any]) -> None:
    """The configuration is the only volume, read-only, mounted where the command looks for it."""
    assert "volumeClaimTemplates" not in workload["spec"]
    [volume] = pod(workload)["volumes"]
    [mount] = container(workload)["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert mount["readOnly"] is True
    keys = manifests()["ConfigMap", volume["configMap"]["name"]]["data"]
    arguments = container(workload)["args"]
    path = Path(arguments[arguments.index("--config") + 1])
    assert path.parent == Path(mount["mountPath"])
    assert path.name in keys


@EVERY_WORKLOAD
def test_pods_run_commands_that_there_are(workload: dict[str, Any]) -> None:
    """Each container's arguments are a command of the command line with its options, for the image's entry point."""
    assert "command" not in container(workload)
    check_command(container(workload)["args"])


@EVERY_WORKLOAD
def test_pods_ask_for_what_they_need(workload: dict[str, Any]) -> None:
    """CPU and memory are requested; memory is bounded, and the CPU isn't, so that no heartbeat is throttled."""
    resources = container(workload)["resources"]
    assert resources["requests"].keys() == {"cpu", "memory"}
    assert resources["limits"].keys() == {"memory"}


@EVERY_WORKLOAD
def test_keys_come_from_an_optional_secret(
    workload: dict[str, Any], configured: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every variable from the Secret sets the key of the backend after which the Secret's entry is named."""
    secret = {
        name: variable["valueFrom"]["secretKeyRef"]
        for name, variable in variables(workload).items()
        if "secretKeyRef" in variable.get("valueFrom", {})
    }
    assert secret
    for name, reference in secret.items():
        assert reference["optional"] is True
        monkeypatch.setenv(name, reference["key"])
    settings = load(tmp_path / "rankstream.yaml")
    backends = (settings.qdrant, settings.embedder, settings.rerank, settings.chat)
    keys = {backend.key() for backend in backends} - {None}
    assert keys == {reference["key"] for reference in secret.values()}
    assert settings.qdrant.key() == "qdrant-api-key"
    if workload["kind"] == "StatefulSet":
        assert settings.embedder.key() == "embedder-api-key"
        assert settings.rerank.key() == "rerank-api-key"


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_the_grace_period_outlasts_the_drain(workload: dict[str, Any], configured: Settings) -> None:
    """No replica is killed that still finishes queries or closes its connections."""
    assert pod(workload)["terminationGracePeriodSeconds"] >= configured.delivery.drain_timeout + MARGIN_S


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_probes_ask_the_health_port(workload: dict[str, Any], configured: Settings) -> None:
    """Start and life are `/livez`, readiness is `/readyz`, on the port that the configuration opens."""
    ports = {port["name"]: port["containerPort"] for port in container(workload)["ports"]}
    asked = {}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container(workload)[kind]["httpGet"]
        assert ports[probe["port"]] == configured.telemetry.port
        asked[kind] = probe["path"]
    assert asked == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_a_slow_start_is_no_failure(workload: dict[str, Any], configured: Settings) -> None:
    """The startup probe waits longer than a first request to the broker may take."""
    probe = container(workload)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 2 * configured.kafka.request_timeout


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_readiness_waits_for_qdrants_answer(workload: dict[str, Any]) -> None:
    """The probe's time-out is longer than the 2 s for which `/readyz` waits for Qdrant."""
    assert container(workload)["readinessProbe"]["timeoutSeconds"] > 2


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_replicas_have_stable_names(workload: dict[str, Any]) -> None:
    """A replica is named after its pod, whose successor has the same name."""
    replica = variables(workload)["RANKSTREAM_DELIVERY__REPLICA"]
    assert replica["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_replicas_start_together_and_all_have_work(workload: dict[str, Any], configured: Settings) -> None:
    """No replica waits for another, and there are no more of them than partitions."""
    assert workload["spec"]["podManagementPolicy"] == "Parallel"
    assert 1 <= workload["spec"]["replicas"] <= configured.kafka.partitions


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_replicas_are_spread(workload: dict[str, Any]) -> None:
    """The replicas of a flow are spread over zones and hosts, and counted by their own labels."""
    constraints = pod(workload)["topologySpreadConstraints"]
    assert {constraint["topologyKey"] for constraint in constraints} == {
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    }
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert all(constraint["labelSelector"] == {"matchLabels": labels} for constraint in constraints)


@pytest.mark.parametrize("workload", STATEFUL_SETS)
def test_each_flow_has_a_headless_service(workload: dict[str, Any]) -> None:
    """The Service that names the replicas has no address of its own, selects them alone, and knows their port."""
    service = manifests()["Service", workload["spec"]["serviceName"]]["spec"]
    assert service["clusterIP"] == "None"
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert service["selector"] == labels == workload["spec"]["selector"]["matchLabels"]
    assert {port["targetPort"] for port in service["ports"]} <= {p["name"] for p in container(workload)["ports"]}


def test_the_flows_share_no_label_selector() -> None:
    """Neither flow's StatefulSet or Service selects the pods of the other."""
    selectors = [stateful_set(flow)["spec"]["selector"]["matchLabels"] for flow in FLOWS]
    assert len({json.dumps(selector, sort_keys=True) for selector in selectors}) == len(FLOWS)


def test_the_cluster_survives_a_broker(configured: Settings) -> None:
    """Topics made in a cluster are replicated, and models take a bounded number of cores."""
    assert configured.kafka.replication_factor == 3
    assert configured.threads is not None
