"""The chart as a whole: its objects are valid, its values are described, its configuration loads."""

import json
import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from schemas.settings import Settings, load
from schemas.settings.section import secrets
from tests.deploy.chart import CHART, RELEASE, SETS, VALUES, Rendered, render, rendered, run
from tests.deploy.files import EXAMPLE, PROJECT

VERSIONS = ("1.31", kubernetes_validate.latest_version())
# Kubernetes itself does not know them.
CUSTOM = {"ScaledObject", "TriggerAuthentication", "ServiceMonitor", "PrometheusRule"}

COMMON = {"ConfigMap", "NetworkPolicy", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet"}
KINDS = {
    "minimal": COMMON | {"Job", "Secret"},
    "everything": COMMON | {"Job", "ScaledObject", "ServiceMonitor"},
    "platform": COMMON
    | {"Job", "Secret", "ScaledObject", "TriggerAuthentication", "PrometheusRule", "Deployment", "Ingress"},
    "managed-kafka": COMMON | {"Secret", "ScaledObject", "TriggerAuthentication"},
}


def default_values() -> dict[str, Any]:
    """The chart's own values."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return values


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid(chart: Rendered, version: str) -> None:
    """The API server of an old and of a new cluster knows every field, and each has a value of its type."""
    for item in chart.objects:
        if item["kind"] not in CUSTOM:
            kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("name", SETS)
def test_each_set_of_values_has_its_objects(name: str) -> None:
    """The chart renders a part that is turned on, and no other."""
    assert {item["kind"] for item in rendered(name).objects} == KINDS[name]


@pytest.mark.parametrize("name", SETS)
def test_helm_finds_no_fault(name: str) -> None:
    """`helm lint --strict` accepts the chart with each set of values."""
    done = run("lint", "--strict", CHART, "--values", VALUES / f"{name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


def test_names_are_unique(chart: Rendered) -> None:
    """No object replaces another one."""
    names = [(item["kind"], item["metadata"]["name"]) for item in chart.objects]
    assert len(set(names)) == len(names)


def test_objects_have_the_common_labels(chart: Rendered) -> None:
    """Each object says by Kubernetes' recommended labels what it belongs to; selectors use none that changes."""
    for item in chart.objects:
        labels = item["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "rankstream"
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"] == PROJECT["version"]
    for workload in chart.flows:
        selector = workload.object["spec"]["selector"]["matchLabels"]
        assert selector.keys() == {f"app.kubernetes.io/{label}" for label in ("name", "instance", "component")}
        assert selector.items() <= workload.labels.items()


def test_the_chart_has_the_version_of_the_project() -> None:
    """The chart is released with the code, and its default image is that of the code."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == PROJECT["version"]
    image = rendered("minimal").flow("search").container["image"]
    assert image == f"rankstream:{PROJECT['version']}"


def test_a_digest_is_used_in_place_of_the_tag() -> None:
    """The image of every pod is the one that the values name."""
    images = {workload.container["image"] for workload in rendered("everything").workloads}
    assert images == {f"registry.example.com/search/rankstream@sha256:{'0123456789abcdef' * 4}"}


# The configuration


def test_the_configuration_loads(configured: Settings) -> None:
    """The ConfigMap of a pod is a valid configuration, and a cluster's needs are its defaults."""
    assert configured.kafka.replication_factor == 3
    assert configured.threads is not None


@pytest.mark.parametrize("name", SETS)
def test_the_configuration_is_that_of_the_values(name: str) -> None:
    """Every value reaches the file as it was written, large numbers too."""

    def within(part: Any, whole: Any) -> bool:
        if isinstance(part, dict):
            return all(key in whole and within(value, whole[key]) for key, value in part.items())
        return type(part) is type(whole) and bool(part == whole)

    given = yaml.safe_load((VALUES / f"{name}.yaml").read_text())["config"]
    assert within(given, yaml.safe_load(rendered(name).configuration))


def test_the_example_is_a_configuration_for_the_chart(tmp_path: Any) -> None:
    """deploy/rankstream.yaml can be pasted under `config`: each of its values comes out the same."""
    example = yaml.safe_load(EXAMPLE.read_text())
    path = tmp_path / "rankstream.yaml"
    path.write_text(render("minimal", {"config": example}).configuration)
    ours = load(EXAMPLE).model_dump()
    # Helm drops a null that replaces a default of the chart.
    ours["threads"] = None
    assert load(path).model_dump() == ours


def test_a_change_of_the_configuration_replaces_the_pods() -> None:
    """The pods' template changes with the configuration, and with nothing else does its checksum."""

    def checksum(values: dict[str, Any] | None) -> str:
        template = render("minimal", values).flow("search").object["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum(None) != checksum({"config": {"threads": 3}})
    assert checksum(None) == checksum({"search": {"replicas": 3}})


# The values


def keys(value: Any) -> Any:
    """A mapping's structure: what a schema describes."""
    return {name: keys(each) for name, each in value.items()} if isinstance(value, dict) else None


def described() -> Any:
    """The structure in the schema, down to what Kubernetes, KEDA and rankstream itself describe."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    def structure(node: dict[str, Any]) -> Any:
        node = schema["definitions"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        own = node.get("additionalProperties") is False
        return {name: structure(each) for name, each in node["properties"].items()} if own else None

    # Of the configuration, it has the schema of the configuration itself.
    return structure(schema) | {"config": None}


def test_the_schema_knows_every_value_and_no_other() -> None:
    """Each value of values.yaml has its place in the schema, and the schema has no value that isn't there."""

    def cut(values: Any, to: Any) -> Any:
        return {name: cut(each, to.get(name)) for name, each in values.items()} if isinstance(to, dict) else None

    schema = described()
    # Helm gives every chart the global values of its parent.
    assert schema.pop("global") is None
    assert cut(default_values(), schema) == schema


def test_every_value_has_a_comment() -> None:
    """In values.yaml a comment stands above each value of the chart's own."""
    schema = described()
    path: list[str] = []
    above = ""
    commented = 0
    for line in (CHART / "values.yaml").read_text().splitlines():
        if match := re.match(r"( *)(\w+):", line):
            path = [*path[: len(match[1]) // 2], match[2]]
            node = schema
            for name in path[:-1]:
                node = (node or {}).get(name)
            # The values of indexing are those of search.
            if (node or path[0] == "config") and (path[0] != "indexing" or len(path) == 1):
                assert above.lstrip().startswith("# "), line
                commented += 1
        above = line
    assert commented > 60


def test_indexing_has_the_values_of_search() -> None:
    """The two flows differ in replicas and lag only."""
    values = default_values()
    ours, other = values["search"], values["indexing"]
    assert keys(ours) == keys(other)
    other["replicas"] = ours["replicas"]
    other["autoscaling"]["lagThreshold"] = ours["autoscaling"]["lagThreshold"]
    assert ours == other


def test_the_chart_knows_every_secret_of_the_configuration() -> None:
    """A new secret of the configuration can be given to the chart, and is refused in the ConfigMap."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = set(schema["properties"]["secrets"]["propertyNames"]["enum"])
    assert known == {".".join(path) for path in secrets(Settings)}
    [listed] = re.findall(r'range \$path := splitList " " "(.*?)"', (CHART / "templates" / "_checks.tpl").read_text())
    assert set(listed.split()) == known
    [names] = re.findall(r"(?m)has \$name \(list (.*?)\)", (CHART / "templates" / "_checks.tpl").read_text())
    assert set(re.findall(r'"(\w+)"', names)) == {path[-1] for path in secrets(Settings)}
    comment = (CHART / "values.yaml").read_text()
    assert all(key in comment for key in known)
