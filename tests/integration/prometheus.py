"""A real Prometheus that goes by the files of deploy/prometheus, in short time."""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import httpx
import yaml

from bench.ports import free_port
from tests.deploy.monitoring import CONFIG, RULES
from tests.integration.deployment import PATIENCE, wait_until
from tests.missing import missing

INTERVAL: Final = "2s"
"""Between two scrapes, and between two evaluations."""

WINDOW: Final = "20s"
"""Over which rates and the like are taken, whatever the rules say."""

FOR: Final = "4s"
"""The time for which an alert's condition must last."""


class Prometheus:
    """A running Prometheus, by its HTTP API."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    @classmethod
    @contextlib.contextmanager
    def scraping(cls, targets: Mapping[str, str], directory: Path) -> Iterator[Self]:
        """Scrape the `host:port` of each job, with the rules and the configuration of deploy/ but for the times."""
        program = shutil.which("prometheus")
        if program is None:
            missing("Prometheus is not installed")
        (directory / "rules.yaml").write_text(yaml.safe_dump(hurried(yaml.safe_load(RULES.read_text()))))
        config = directory / "prometheus.yaml"
        config.write_text(yaml.safe_dump(redirected(yaml.safe_load(CONFIG.read_text()), targets)))
        address = f"127.0.0.1:{free_port()}"
        command = [program, f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
        command += [f"--web.listen-address={address}", "--enable-feature=exemplar-storage"]
        with (directory / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://{address}", timeout=PATIENCE) as client:
                running = cls(client)
                wait_until(lambda: running.ready() or process.poll() is not None)
                assert process.poll() is None, (directory / "prometheus.log").read_text()
                yield running
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def ready(self) -> bool:
        """True if it takes requests."""
        with contextlib.suppress(httpx.TransportError):
            return self._client.get("/-/ready").status_code == httpx.codes.OK
        return False

    def value(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now; fails if it cannot be evaluated."""
        answer: list[dict[str, Any]] = self._data("query", query=expression)["result"]
        return answer

    def firing(self) -> list[dict[str, str]]:
        """The labels of every alert that fires."""
        return [alert["labels"] for alert in self._data("alerts")["alerts"] if alert["state"] == "firing"]

    def fires(self, name: str, **labels: str) -> bool:
        """True if an alert of this name, with these labels, fires."""
        return any({"alertname": name, **labels}.items() <= alert.items() for alert in self.firing())

    def wait_firing(self, name: str, **labels: str) -> None:
        """Return once it fires; fails if it does not in time."""
        wait_until(lambda: self.fires(name, **labels))

    def wait_quiet(self) -> None:
        """Return once no alert fires; fails with those that do."""
        try:
            wait_until(lambda: not self.firing(), 2 * PATIENCE)
        except AssertionError:
            raise AssertionError(self.firing()) from None

    def exemplars(self, name: str) -> set[str]:
        """The trace ids of a series' exemplars."""
        found = self._data("query_exemplars", query=name, start="0", end="4102444800")
        return {each["labels"]["trace_id"] for series in found for each in series["exemplars"]}

    def _data(self, path: str, **parameters: str) -> Any:
        answer = self._client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]


def hurried(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules with short times in place of their own."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"(\[|offset )\d+[smhd]", rf"\g<1>{WINDOW}", rule["expr"])
            if "for" in rule:
                rule["for"] = FOR
    return rules


def redirected(config: dict[str, Any], targets: Mapping[str, str]) -> dict[str, Any]:
    """The configuration with short times, and with these targets in place of the jobs' own."""
    config["global"] = {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL}
    config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] in targets]
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    return config
