"""The compose file, deploy/compose.yaml, and the configuration of its collector."""

import json
import re
import subprocess
import sys
from contextlib import closing
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from prometheus_client import CollectorRegistry

from flows.process.health import Health
from schemas.settings import Settings, load
from tests.deploy.files import DEPLOY, EXAMPLE, MARGIN_S, PROJECT, ROOT, check_command, installed


@cache
def compose() -> dict[str, Any]:
    """The compose file."""
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return document


SERVICES: dict[str, dict[str, Any]] = compose()["services"]
FLOWS = ("search", "indexing", "feedback")
OURS = sorted(name for name, service in SERVICES.items() if service["image"].startswith("rankstream:"))


RERANKER = DEPLOY / "reranker.env"


def variables() -> dict[str, str]:
    """The variables of the file that adds a server for the reranker."""
    lines = (line for line in RERANKER.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def composed(name: str, monkeypatch: pytest.MonkeyPatch, **more: str) -> Settings:
    """The settings that a service of ours runs with, and with more variables."""
    service = SERVICES[name]
    for variable, value in {**service["environment"], **more}.items():
        # What has no value is passed on, if it is set.
        if value is not None:
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


def configuration(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Docker Compose's own reading of the file."""
    file = str(DEPLOY / "compose.yaml")
    command = [installed("docker-compose"), *options, "--file", file, "config", "--format", "json"]
    return subprocess.run(command, env={"PATH": "", **environment}, capture_output=True, text=True, check=False)


def test_compose_accepts_the_file() -> None:
    """Docker Compose finds no unknown key, no value of a wrong type and no service that doesn't exist."""
    done = configuration("--profile", "*")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["services"].keys() == SERVICES.keys()
    assert "warn" not in done.stderr.lower()


def test_no_model_server_runs_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a variable, everything but the reranker's server and the feedback flow runs, and the models in the image
    rank.
    """
    done = configuration()
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services.keys() == SERVICES.keys() - {"reranker", "feedback"}
    assert composed("search", monkeypatch).rerank.kind == "late_interaction"


def test_a_file_adds_a_model_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It chooses the profile, and the flows ask the server for the model that it serves."""
    done = configuration("--env-file", str(RERANKER))
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services.keys() == SERVICES.keys() - {"feedback"}
    ours = {name: value for name, value in variables().items() if name.startswith("RANKSTREAM_")}
    assert services["search"]["environment"].items() >= ours.items()
    settings = composed("search", monkeypatch, **ours)
    assert settings.rerank.kind == "tei"
    assert urlsplit(settings.rerank.url or "").hostname in SERVICES
    assert settings.rerank.model in services["reranker"]["command"]


def test_every_image_that_is_pulled_can_be_named_by_its_digest() -> None:
    """A variable names each, and that of the base of ours: Docker Compose takes the digests in place of the tags."""
    pulled = {name for name in SERVICES if name not in OURS}
    digest = "sha256:" + 64 * "a"
    variables = {name: re.match(r"\$\{(\w+)", SERVICES[name]["image"]) for name in pulled}
    named = {name: f"registry.example.com/{name}@{digest}" for name in pulled}
    environment = {matched[1]: named[name] for name, matched in variables.items() if matched}
    done = configuration("--profile", "*", **environment, PYTHON_IMAGE=f"python@{digest}")
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert {name: services[name]["image"] for name in pulled} == named
    assert {services[name]["build"]["args"]["PYTHON_IMAGE"] for name in OURS} == {f"python@{digest}"}


def test_compose_runs_the_flows_and_makes_their_topics() -> None:
    """Four services are ours, each a command of the command line."""
    assert OURS == ["feedback", "indexing", "search", "topics"]
    for name in OURS:
        check_command(SERVICES[name]["command"])


@pytest.mark.parametrize("name", OURS)
def test_composed_configuration_names_composed_services(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration loads, and every address in it is that of a service of the same file."""
    settings = composed(name, monkeypatch)
    assert f"://{settings.kafka.bootstrap_servers}," in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    otlp = SERVICES[name]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    for url in (f"kafka://{settings.kafka.bootstrap_servers}", settings.qdrant.url, otlp):
        assert urlsplit(url).hostname in SERVICES


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


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FLOWS, "qdrant"])
def test_health_checks_tell_ready_from_not(name: str) -> None:
    """The check's own command succeeds while `/readyz` answers 200, and fails when it doesn't or nobody listens."""
    form, program, *arguments = SERVICES[name]["healthcheck"]["test"]
    assert form == "CMD"
    program = sys.executable if program == "python" else program
    ready = True
    with closing(Health("127.0.0.1", 0, CollectorRegistry())) as health:
        health.begin({}, {"part": lambda: ready})
        command = [program, *(re.sub(r"(?<=127\.0\.0\.1[:/])\d+", str(health.port), word) for word in arguments)]
        assert command[1:] != arguments
        assert subprocess.run(command, check=False, capture_output=True).returncode == 0
        ready = False
        assert subprocess.run(command, check=False, capture_output=True).returncode != 0
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


@pytest.mark.parametrize("name", FLOWS)
def test_composed_health_checks_ask_the_ports_of_the_services(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's check asks the health port of its configuration, Qdrant's the port that the flows use."""
    settings = composed(name, monkeypatch)
    assert f"127.0.0.1:{settings.telemetry.port}/readyz" in SERVICES[name]["healthcheck"]["test"][-1]
    assert settings.qdrant.url is not None
    assert f"127.0.0.1/{urlsplit(settings.qdrant.url).port} " in SERVICES["qdrant"]["healthcheck"]["test"][-1]


def test_composed_images_are_pinned() -> None:
    """Every image has a version, ours the project's."""
    for service in SERVICES.values():
        tag = service["image"].rpartition(":")[2]
        assert re.search(r"\d+\.\d+", tag), service["image"]
    assert {SERVICES[name]["image"] for name in OURS} == {f"rankstream:{PROJECT['version']}"}


def test_composed_files_and_volumes_exist() -> None:
    """Every mounted path and build context exists; ports are open to this machine alone."""
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose()["volumes"]
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
