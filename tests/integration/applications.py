"""Applications with unmodified clients of other families: each command runs one file, with what it needs on the way."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.kafka.broker import SHORT_LIVED, BrokerError, jars
from tests.missing import missing

KAFKAJS: Final = "kafkajs@2.2.4"
TYPESCRIPT: Final = ("typescript@5.4.5", "@types/node@20.14.2")
FRANZ: Final = "github.com/twmb/franz-go@v1.18.0"
SPRING: Final = Path(__file__).parent / "spring" / "pom.xml"

Application = tuple[list[str], Mapping[str, str]]
"""A command, and its environment."""

Runtime = Callable[[Path, Path], Application]
"""Makes the command for a file, with a directory for what it needs."""


def python(file: Path, directory: Path) -> Application:
    """The command of a program with confluent-kafka."""
    return [sys.executable, str(file)], {}


def java(file: Path, directory: Path) -> Application:
    """The command of a program with Kafka's own client."""
    return ["java", *SHORT_LIVED, "-cp", f"{jars()}/*", str(file)], {}


def spring(file: Path, directory: Path) -> Application:
    """The command of a program with Spring for Kafka."""
    try:
        found = jars(SPRING)
    except BrokerError as error:
        missing(f"Spring for Kafka is not to be had: {error}")
    return ["java", *SHORT_LIVED, "-cp", f"{found}/*", str(file)], {}


def node(file: Path, directory: Path) -> Application:
    """The command of a program with kafkajs."""
    return _node(file, directory, KAFKAJS)


def typescript(file: Path, directory: Path) -> Application:
    """The command of a program in TypeScript with kafkajs, which is in the directory and is compiled strictly."""
    command = _node(file.with_suffix(".js"), directory, KAFKAJS, *TYPESCRIPT)
    compiler = str(directory / "node_modules" / ".bin" / "tsc")
    _run([compiler, "--strict", "--target", "es2022", "--module", "commonjs", str(file)], directory)
    return command


def _node(file: Path, directory: Path, *packages: str) -> Application:
    need("node", "npm")
    _run(["npm", "install", "--prefix", str(directory), "--no-audit", "--no-fund", *packages], directory)
    return ["node", str(file)], {"NODE_PATH": str(directory / "node_modules")}


def go(file: Path, directory: Path) -> Application:
    """The command of a program with franz-go, which is built once."""
    need("go")
    (directory / "go.mod").write_text("module asking\n\ngo 1.21\n")
    _run(["go", "mod", "edit", f"-require={FRANZ}"], directory)
    _run(["go", "mod", "tidy"], directory)
    # Without optimising, the standard library compiles in two thirds of the time.
    _run(["go", "build", "-gcflags=all=-N -l", "-o", "asking", str(file)], directory)
    return [str(directory / "asking")], {}


def need(*commands: str) -> None:
    """Skip the test, or fail on CI, if one of the programs is not here."""
    if absent := [command for command in commands if shutil.which(command) is None]:
        missing(f"the application needs {' and '.join(absent)}")


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
