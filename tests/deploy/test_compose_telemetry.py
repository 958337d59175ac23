"""Metrics and traces in compose: from the flows to Prometheus, the collector, Tempo and Grafana."""

from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.deploy.files import DEPLOY
from tests.deploy.test_compose import FLOWS, SERVICES, composed


def read(path: str) -> dict[str, Any]:
    """A file under deploy/."""
    document: dict[str, Any] = yaml.safe_load((DEPLOY / path).read_text())
    return document


def mounted(service: str, path: str) -> str:
    """The file or directory under deploy/ that a service finds at this path."""
    for mount in SERVICES[service]["volumes"]:
        source, target, *_ = mount.split(":")
        if source.startswith("./") and (path == target or path.startswith(f"{target}/")):
            return str((source + path.removeprefix(target)).removeprefix("./"))
    raise AssertionError(f"{service} has nothing at {path}")


def option(service: str, name: str) -> str:
    """The value of an option of a service's command."""
    [value] = [word.partition("=")[2] for word in SERVICES[service]["command"] if word.startswith(f"{name}=")]
    return str(value)


def test_the_collector_listens_where_the_flows_send() -> None:
    """The receiver's port is that of the flows' endpoint, and each pipeline is made of parts that are configured."""
    config = read(mounted("otel-collector", option("otel-collector", "--config")))
    sent = urlsplit(SERVICES["search"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"])
    assert sent.hostname == "otel-collector"
    assert config["receivers"]["otlp"]["protocols"]["http"]["endpoint"] == f"0.0.0.0:{sent.port}"
    for parts in config["service"]["pipelines"].values():
        for kind, names in parts.items():
            assert set(names) <= config[kind].keys()


def test_tempo_listens_where_the_collector_sends() -> None:
    """Traces go from the collector to Tempo's own receiver, and Tempo writes where it can."""
    pipeline = read("otel-collector.yaml")["service"]["pipelines"]["traces"]
    [exporter] = [read("otel-collector.yaml")["exporters"][name] for name in pipeline["exporters"]]
    host, _, port = exporter["endpoint"].partition(":")
    assert host in SERVICES
    config = read(mounted(host, option(host, "-config.file")))
    assert config["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] == f"0.0.0.0:{port}"
    [writable] = [each.partition(":")[0] for each in SERVICES[host]["tmpfs"]]
    storage = config["storage"]["trace"]
    assert all(storage[part]["path"].startswith(f"{writable}/") for part in ("wal", "local"))


def test_prometheus_scrapes_the_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a target at its health port, where `/metrics` is; the feedback flow by a name that is there with it."""
    config = read(mounted("prometheus", option("prometheus", "--config.file")))
    jobs = config["scrape_configs"]
    targets = {target for job in jobs for each in job.get("static_configs", ()) for target in each["targets"]}
    names = (each for job in jobs for each in job.get("dns_sd_configs", ()))
    targets |= {f"{name}:{each['port']}" for each in names for name in each["names"]}
    assert targets == {f"{name}:{composed(name, monkeypatch).telemetry.port}" for name in FLOWS}
    assert all(job.get("metrics_path", "/metrics") == "/metrics" for job in config["scrape_configs"])
    # The samples of a histogram lead to traces only if Prometheus keeps them.
    assert "exemplar-storage" in option("prometheus", "--enable-feature")


def test_grafana_reads_prometheus_and_tempo() -> None:
    """Each data source is a service at the port where it listens, and an exemplar leads to its trace."""
    provisioning = mounted("grafana", SERVICES["grafana"]["environment"]["GF_PATHS_PROVISIONING"])
    sources = {each["uid"]: each for each in read(f"{provisioning}/datasources/rankstream.yaml")["datasources"]}
    assert {uid: urlsplit(each["url"]).hostname for uid, each in sources.items()} == {uid: uid for uid in sources}
    assert f"127.0.0.1:{urlsplit(sources['prometheus']['url']).port}:9090" in SERVICES["prometheus"]["ports"]
    assert urlsplit(sources["tempo"]["url"]).port == read("tempo.yaml")["server"]["http_listen_port"]
    [exemplar] = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert exemplar["datasourceUid"] in sources


def test_grafana_shows_the_dashboards() -> None:
    """The dashboards are the files in deploy/grafana/dashboards."""
    provisioning = mounted("grafana", SERVICES["grafana"]["environment"]["GF_PATHS_PROVISIONING"])
    [provider] = read(f"{provisioning}/dashboards/rankstream.yaml")["providers"]
    assert mounted("grafana", provider["options"]["path"]) == "grafana/dashboards"
