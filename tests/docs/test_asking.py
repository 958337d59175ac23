"""The examples of *Asking from an application*: two instances of each ask at a time, and each has its own answers."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from tests.docs.pages import DOCS, blocks
from tests.integration.applications import Runtime, go, java, node, python, spring
from tests.integration.deployment import PATIENCE, Deployment
from tests.missing import missing

INSTANCES: Final = 2
QUESTIONS: Final = ["blue lantern", 'green "harbor" \\', "blue harbor"]
EXAMPLES: Final = {block.info: block.text for block in blocks(DOCS / "how-to" / "asking.md")}
FILES: Final = {"python": "py", "javascript": "js"}


@pytest.mark.parametrize(
    ("runtime", "example"),
    [
        (python, "python ask"),
        (java, "java Ask"),
        (spring, "java AskBySpring"),
        (node, "javascript ask"),
        pytest.param(go, "go ask", marks=pytest.mark.nightly),
    ],
)
def test_each_instance_has_the_answers_to_its_questions(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], runtime: Runtime, example: str
) -> None:
    """Each on a reply topic that it made after the start, in the order of its questions, and no other ones."""
    language, name = example.split()
    topics = topic_names("replies")
    file = tmp_path / f"{name}.{FILES.get(language, language)}"
    with (
        stub_backends(qdrant_latency=0.001, rerank_latency=0.001) as stubs,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": stubs.qdrant}}) as deployment,
    ):
        deployment.settings["kafka"]["topics"] = {**deployment.names, "reply_to": [f"{topics}.*"]}
        deployment.settings["limits"] = {"timeout": 60}
        deployment.start()
        text = EXAMPLES[example].replace("localhost:9092", broker.bootstrap)
        text = text.replace('"queries"', f'"{deployment.names["queries"]}"').replace("replies.shop", f"{topics}.shop")
        file.write_text(text)
        command, environment = runtime(file, tmp_path)
        running = [
            subprocess.Popen(
                [*command, str(instance), *QUESTIONS[instance:], f"of {instance}"],
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for instance in range(INSTANCES)
        ]
        done = [(process, *process.communicate(timeout=PATIENCE)) for process in running]
        for instance, (process, output, errors) in enumerate(done):
            assert process.returncode == 0, errors
            lines = [line for line in output.splitlines() if ": " in line]
            assert [line.split(": ")[0] for line in lines] == [*QUESTIONS[instance:], f"of {instance}"]
            assert all("partial" in line or '"ok"' in line or "ok," in line for line in lines), lines
        assert deployment.records("results") == []


def test_the_example_in_go_is_written_as_go_writes_it() -> None:
    """Its syntax and its form are gofmt's. `make nightly` builds it, for which Go compiles its own library first."""
    if shutil.which("gofmt") is None:
        missing("the form of Go needs gofmt")
    done = subprocess.run(["gofmt", "-d"], input=EXAMPLES["go ask"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
