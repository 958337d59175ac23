"""The steps of deploy/Dockerfile, run without Docker: in an empty directory, with a Python that has nothing but pip."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.utils import canonicalize_name

from operators.clients.local.minilm import BUILT_SHA256
from tests.deploy.files import PROJECT, ROOT, Stage, last_stage, stages

pytestmark = [pytest.mark.slow, pytest.mark.operate, pytest.mark.weights, pytest.mark.timeout(2400)]

IMAGE = "/opt/rankstream"
"""The paths that the last stage copies from the builder."""


class Image(NamedTuple):
    """A directory that stands for the root of the image."""

    root: Path

    def path(self, inside: str) -> Path:
        """The place of a path of the image on this machine."""
        return self.root / inside.lstrip("/")

    def environment(self, stage: Stage) -> dict[str, str]:
        """The variables that a stage sets, over those that pip needs to find its index."""
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name == "HOME"}
        kept["PATH"] = f"{self.root / 'python' / 'bin'}:/usr/bin:/bin"
        for value in stage.all("ENV"):
            for word in shlex.split(value):
                name, _, given = word.partition("=")
                given = given.replace(IMAGE, str(self.path(IMAGE)))
                kept[name] = given.replace("$PATH", kept["PATH"])
        return kept

    def run(self, stage: Stage, command: str, directory: Path) -> str:
        """Run a step's command as Docker would; what it prints."""
        line = command.replace(IMAGE, str(self.path(IMAGE)))
        done = subprocess.run(
            ["/bin/sh", "-euc", line],
            cwd=directory,
            env=self.environment(stage),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def build(self, stage: Stage) -> None:
        """Do what a stage says, step by step."""
        directory = self.root
        for instruction, value in stage.steps:
            match instruction:
                case "WORKDIR":
                    directory = self.path(value)
                    directory.mkdir(parents=True)
                case "COPY":
                    *sources, target = value.split()
                    for source in sources:
                        self._copy(ROOT / source, directory, target, alone=len(sources) == 1)
                case "RUN":
                    self.run(stage, value, directory)
                case _:
                    assert instruction == "ENV", instruction

    def _copy(self, source: Path, directory: Path, target: str, *, alone: bool) -> None:
        # Docker takes a target for a directory if it ends with a slash or there are several sources.
        if source.is_dir():
            shutil.copytree(source, directory / target, ignore=shutil.ignore_patterns("__pycache__"))
            return
        place = directory / target if alone and not target.endswith("/") else directory / target / source.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image after the builder's last step."""
    made = Image(tmp_path_factory.mktemp("image"))
    python = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([python, "-m", "venv", str(made.root / "python")], check=True)
    [builder] = [stage for stage in stages() if stage.name == "builder"]
    made.build(builder)
    return made


def test_the_image_runs_rankstream(image: Image) -> None:
    """The last stage copies the command, of the project's version, in an environment without pip."""
    stage = last_stage()
    assert "rankstream" in image.run(stage, "rankstream --help", image.root)
    code = "import importlib.metadata as m; print(m.version('rankstream'), [d.name for d in m.distributions()])"
    printed = image.run(stage, f"python -c {shlex.quote(code)}", image.root)
    assert printed.startswith(f"{PROJECT['version']} ")
    assert "'pip'" not in printed
    assert "'pytest'" not in printed


def test_the_image_has_the_models_graph(image: Image) -> None:
    """The graph of each precision is there, and an embedding needs nothing that could be written."""
    stage = last_stage()

    def graphs() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in image.path(f"{IMAGE}/cache").glob("*")}

    before = graphs()
    assert len(before) == len(BUILT_SHA256)
    code = """
import asyncio, os
from pathlib import Path
from operators.clients.local.minilm import NAMES, MiniLM
for precision in NAMES:
    model = MiniLM(Path(os.environ["RANKSTREAM_CACHE_DIR"]), precision=precision)
    assert len(model.encode(["a blue lantern"])) == 1
    asyncio.run(model.aclose())
"""
    image.run(stage, f"python -c {shlex.quote(code)}", image.root)
    assert graphs() == before


def test_the_bill_of_materials_lists_the_image() -> None:
    """It has each distribution that the image's environment gets, in its version, and those of no tool."""
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    bill = json.loads((ROOT / ".cache" / "sbom.json").read_text())
    pinned = re.findall(r"(?m)^([\w.-]+)==(\S+)", (ROOT / "requirements" / "run.txt").read_text())
    assert {(canonicalize_name(each["name"]), each["version"]) for each in bill["components"]} == set(pinned)
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", PROJECT["name"])
