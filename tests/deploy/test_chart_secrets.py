"""Secrets in the chart: which pods get which, and the one that signs cursors."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.settings import Settings, load
from schemas.settings.root import MIN_SECRET
from schemas.settings.section import secrets
from tests.deploy.api_server import serving
from tests.deploy.chart import NAMESPACE, RELEASE, SETS, Rendered, render, rendered
from tests.deploy.files import FLOWS

CURSOR = "RANKSTREAM_CURSOR__SIGNING_SECRET"

NEEDED: dict[str, set[str]] = {
    "search": {"qdrant", "embedder", "sparse_encoder", "rerank", "chat", "cursor"},
    "indexing": {"qdrant", "embedder", "sparse_encoder"},
    "feedback": {"cursor"},
    "topics": {"qdrant"},
    "check": {"qdrant", "embedder", "sparse_encoder", "rerank", "chat", "cursor"},
    "console": set(),
}


def test_no_secret_is_in_the_configmap(chart: Rendered) -> None:
    """The ConfigMap has no key that holds a secret, and no workload has the value of one."""

    def names(section: dict[str, Any]) -> set[str]:
        inner = (names(each) for each in section.values() if isinstance(each, dict))
        return set(section).union(*inner)

    known = {path[-1] for path in secrets(Settings)}
    assert not names(yaml.safe_load(chart.configuration)) & known
    for workload in chart.workloads:
        for name, variable in workload.variables.items():
            secret = any(name.lower().endswith(f"__{each}") for each in known)
            assert not (secret and "value" in variable), name


def test_pods_get_the_secrets_that_they_need() -> None:
    """Each secret of the values is a variable of those pods that use it, and of no other."""
    given = yaml.safe_load(Path(__file__).with_name("values").joinpath("everything.yaml").read_text())["secrets"]
    for workload in rendered("everything").workloads:
        ours = {name: place for name, place in workload.secrets.items() if name.startswith("RANKSTREAM_")}
        assert ours == {
            f"RANKSTREAM_{key.upper().replace('.', '__')}": (entry["name"], entry["key"])
            for key, entry in given.items()
            if key.partition(".")[0] in NEEDED[workload.component]
        }


def test_every_pod_can_authenticate_at_kafka() -> None:
    """Certificates and passwords for the broker reach all pods, as files where the configuration looks for them."""
    found = rendered("managed-kafka")
    kafka = yaml.safe_load(found.configuration)["kafka"]
    files = [kafka["tls"][name] for name in ("ca_file", "certificate_file", "key_file")]
    for workload in found.workloads:
        assert workload.secrets["RANKSTREAM_KAFKA__TLS__KEY_PASSWORD"] == ("kafka-key", "password")
        [volume] = [each for each in workload.pod["volumes"] if "secret" in each]
        assert volume["secret"]["secretName"] == "rankstream-kafka"
        [mount] = [each for each in workload.container["volumeMounts"] if each["name"] == volume["name"]]
        assert mount["readOnly"] is True
        assert {str(Path(file).parent) for file in [*files, kafka["sasl"]["password_file"]]} == {mount["mountPath"]}


def test_variables_set_the_keys_that_they_are_named_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search flow's variables are settings, and each gives its secret to the section that it is for."""
    found = rendered("everything")
    path = tmp_path / "rankstream.yaml"
    path.write_text(found.configuration)
    for name, (_, key) in found.flow("search").secrets.items():
        monkeypatch.setenv(name, f"the secret of {key}")
    settings = load(path)
    backends = (settings.qdrant, settings.embedder, settings.sparse_encoder, settings.rerank, settings.chat)
    assert [each.secret("api_key") for each in backends] == [
        f"the secret of {key}" for key in ("api-key", "embedder", "splade", "reranker", "chat")
    ]
    assert settings.cursor.secret("signing_secret") == "the secret of secret"


# The secret that signs cursors


def test_all_search_replicas_sign_with_one_secret(chart: Rendered) -> None:
    """Cursors are signed by default: every search replica reads the same entry, and no indexing replica does. The
    feedback flow reads it, too: tokens are signed by it.
    """
    place = chart.flow("search").secrets[CURSOR]
    readers = {workload.component for workload in chart.flows if workload.secrets.get(CURSOR) == place}
    assert readers == {workload.component for workload in chart.flows} - {"indexing"}
    assert CURSOR not in chart.flow("indexing").secrets
    generated = {each["metadata"]["name"]: each for each in chart.of("Secret")}
    if place[0] in generated:
        value = base64.b64decode(generated[place[0]]["data"][place[1]])
        assert len(value) >= 2 * MIN_SECRET
        assert generated[place[0]]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    else:
        assert place == ("cursors", "secret")


@pytest.mark.parametrize(
    "values",
    [
        {"secrets": {"cursor.signing_secret": {"name": "cursors", "key": "secret"}}},
        {"config": {"cursor": {"signing_secret_file": "/etc/cursor/secret"}}},
        {"generateCursorSecret": False},
    ],
)
def test_nothing_is_generated_in_place_of_a_secret_that_exists(values: dict[str, Any]) -> None:
    """A secret of the values, a file, or the word not to: the chart makes no Secret then."""
    found = render("minimal", values)
    assert not found.of("Secret")
    assert (CURSOR in found.flow("search").secrets) == ("secrets" in values)


def test_without_a_cluster_every_rendering_has_another_secret() -> None:
    """`helm template` cannot look anything up: what applies its output needs a secret of its own."""
    assert len({render("minimal").one("Secret")["data"]["signing-secret"] for _ in range(2)}) == 2


@pytest.mark.parametrize("namespace", [NAMESPACE, "elsewhere"])
def test_an_upgrade_keeps_the_secret(namespace: str, tmp_path: Path) -> None:
    """Helm looks the secret up in the cluster: one that an earlier release left there stays, of its namespace only."""
    kept = base64.b64encode(b"signed by this for years").decode()
    secret = render("minimal", None, "--namespace", namespace).one("Secret")
    secret["metadata"]["namespace"] = namespace
    secret["metadata"]["annotations"] |= {
        "meta.helm.sh/release-name": RELEASE,
        "meta.helm.sh/release-namespace": namespace,
    }
    secret["data"]["signing-secret"] = kept
    with serving([secret], tmp_path) as kubeconfig:
        options = ("--dry-run=server", "--disable-openapi-validation", "--kubeconfig", str(kubeconfig))
        found = render("minimal", None, *options).one("Secret")
    assert found["metadata"]["name"] == secret["metadata"]["name"]
    assert (found["data"]["signing-secret"] == kept) == (namespace == NAMESPACE)


def test_there_are_secrets_for_each_flow() -> None:
    """The table above names every component that there is."""
    components = {workload.component for name in SETS for workload in rendered(name).workloads}
    assert components == NEEDED.keys() >= set(FLOWS)


def test_names_that_users_choose_are_no_secrets() -> None:
    """A field or a source of the configuration may be called like a secret."""
    config = {"qdrant": {"indexes": {"token": "keyword"}}, "policies": {"sources": {"password": {"read": True}}}}
    found = yaml.safe_load(render("minimal", {"config": config}).configuration)
    assert (found["qdrant"]["indexes"], found["policies"]["sources"].keys()) == ({"token": "keyword"}, {"password"})
