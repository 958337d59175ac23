"""The page about deploying, docs/deploy.md, and the commands for Kubernetes on the page about upgrading."""

import re
import shlex
import textwrap
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import CHART, VALUES, Rendered, render, run
from tests.deploy.files import PAGE, ROOT, check_command

UPGRADING = ROOT / "docs" / "how-to" / "upgrading.md"


def blocks(page: Path, info: str) -> list[str]:
    """The fenced blocks of a page, by what stands behind the fence."""
    found = re.findall(rf"(?ms)^( *)```{info}\n(.*?)^\1```", page.read_text())
    return [textwrap.dedent(text) for _, text in found]


def commands(page: Path, name: str) -> list[list[str]]:
    """The words of each command of this name in the page's shell blocks, without the name."""
    lines = "".join([*blocks(page, "sh"), *blocks(page, "console")]).splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [each[1:] for each in words if each[:1] == [name]]


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Values over others, as Helm merges them."""
    both = {
        name: merged(under[name], over[name]) for name in under.keys() & over.keys() if isinstance(over[name], dict)
    }
    return {**under, **over, **both}


VALUE_BLOCKS = [yaml.safe_load(text) for text in blocks(PAGE, "yaml values.yaml")]


def test_the_page_names_files_that_there_are() -> None:
    """Every path under deploy/ in docs/deploy.md exists."""
    named = set(re.findall(r"\bdeploy/[\w./-]*\w", PAGE.read_text()))
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_pages_commands_parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `rankstream` command in docs/deploy.md is one that there is, with options that it has."""
    (tmp_path / "documents.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    ours = commands(PAGE, "rankstream")
    assert len(ours) >= 2
    for arguments in ours:
        check_command(arguments)


@pytest.mark.parametrize("values", VALUE_BLOCKS, ids=lambda values: "-".join(values))
def test_the_pages_values_are_rendered(values: dict[str, Any]) -> None:
    """Each block of values on the page is accepted by the chart, over what every installation needs."""
    assert render("minimal", values).flows


def test_all_of_the_page_together_is_rendered() -> None:
    """A reader who takes every block has a chart that KEDA scales, with the secrets in their places."""
    found = render("minimal", reduce(merged, VALUE_BLOCKS))
    assert found.of("ScaledObject")
    assert found.of("TriggerAuthentication")
    assert found.flow("search").secrets["RANKSTREAM_CURSOR__SIGNING_SECRET"] == ("rankstream", "signing-secret")
    # The page creates these Secrets, with these entries.
    created = {words[3]: words[4:] for words in commands(PAGE, "kubectl") if words[:2] == ["create", "secret"]}
    for name, key in found.flow("search").secrets.values():
        assert f"--from-file={key}" in created[name]
    [mounted] = [volume["secret"]["secretName"] for volume in found.flow("search").pod["volumes"] if "secret" in volume]
    assert mounted in created


@pytest.mark.parametrize("page", [PAGE, UPGRADING], ids=lambda page: page.stem)
def test_the_pages_helm_commands_render(page: Path) -> None:
    """Each `helm upgrade` of a page installs this chart, with options that Helm has and values that the chart has."""
    upgrades = [words[1:] for words in commands(page, "helm") if words[0] == "upgrade"]
    assert upgrades
    for words in upgrades:
        options = [str(VALUES / "minimal.yaml") if word == "values.yaml" else word for word in words]
        named = [word for word in options if not word.startswith("--")]
        assert named[:2] == ["rankstream", str(CHART.relative_to(ROOT))]
        rest = [word for word in options if word not in {"--install", *named[:2]}]
        done = run("template", "rankstream", CHART, *rest)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [PAGE, UPGRADING], ids=lambda page: page.stem)
def test_the_pages_name_objects_that_there_are(page: Path) -> None:
    """Every object that a page names is one of a release that is called rankstream."""
    done = run("template", "rankstream", CHART, "--values", VALUES / "minimal.yaml")
    objects = Rendered(list(yaml.safe_load_all(done.stdout)))
    names = {(item["kind"].lower(), item["metadata"]["name"]) for item in objects.objects}
    named = set(re.findall(r"\b(statefulset)/([\w-]+)", page.read_text()))
    assert named
    assert named <= names
    if page == PAGE:
        assert ("secret", "rankstream-cursor") in names
        assert "`rankstream-cursor`" in page.read_text()
    for selector in re.findall(r"--selector (\S+)", page.read_text()):
        wanted = dict(pair.split("=") for pair in selector.split(","))
        assert any(wanted.items() <= item["metadata"]["labels"].items() for item in objects.of("Job"))


def test_the_page_knows_every_secret() -> None:
    """The page lists all keys under which a Secret can be named."""
    comment = re.search(r"These keys can be set: (.*?)\. For", (CHART / "values.yaml").read_text().replace("\n# ", " "))
    assert comment
    keys = re.findall(r"[a-z_]+\.[a-z_.]+[a-z]", comment[1])
    assert len(keys) == 10
    assert all(key in PAGE.read_text() for key in keys)
