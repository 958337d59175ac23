"""The page on experiments: a click on its page becomes feedback in the topic, and its verdict is one."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import kafka
import pytest

from bench.kafka.broker import Broker
from flows.cli.experiment import describe_report, make_report
from operators.experiments.click_model import hear
from operators.experiments.impression import Impression, TokenCodec
from schemas.preference import PairedRankings, Preference
from schemas.settings.ranking import Until
from tests.docs.pages import DOCS, blocks
from tests.integration.applications import need

BLOCKS: Final = {block.info: block.text for block in blocks(DOCS / "how-to" / "experiments.md")}

BROWSER: Final = """
const listeners = [];
globalThis.document = { querySelector: (name) => ({ addEventListener: (_, heard) => listeners.push(heard) }) };
Object.defineProperty(globalThis, "navigator", { value: { sendBeacon: (to, body) => console.log(body) } });
%s
const hit = { dataset: { query: "q-1", token: process.argv[2] } };
listeners[0]({ target: { closest: (selector) => (selector === "[data-token]" ? hit : null) } });
listeners[0]({ target: { closest: () => null } });
"""


def test_a_click_becomes_feedback(broker: Broker, topic_names: Callable[[str], str], tmp_path: Path) -> None:
    """The page's script sends one message a click on a hit; the server's code writes it with the key of its query."""
    need("node")
    shown = Impression("words-first", "b", 2, "d7", "q-1", "shop", 1_700_000_000_000)
    tokens, topic = TokenCodec(b"a secret of the tests"), topic_names("feedback")
    broker.create_topic(topic, 2)
    (script := tmp_path / "page.js").write_text(BROWSER % BLOCKS["javascript page"])
    done = subprocess.run(["node", str(script), tokens.write(shown)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    [body] = done.stdout.splitlines()
    own: dict[str, Any] = {}
    server = BLOCKS["python feedback"].replace("localhost:9092", broker.bootstrap).replace('"feedback"', repr(topic))
    exec(compile(server, "server.py", "exec"), own)
    own["on_feedback"](body)
    own["producer"].flush(30)
    reader = kafka.KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    record = next(reader)
    reader.close()
    message = json.loads(record.value)
    assert (record.key, message["action"]) == (b"q-1", "click")
    assert tokens.read(message["token"]) == shown


def test_the_verdict_is_one() -> None:
    """The page's lines are those that the command prints for such votes."""
    about: dict[str, Any] = {"experiment": "words-first", "namespace": "shop", "issued": 0}
    voted: dict[Literal["a", "b", "tie"], int] = {"b": 580, "a": 470, "tie": 610}
    preferences = [
        Preference(query_id=f"{side}{number}", preferred=side, a=1, b=1, clicks=[], **about)
        for side, count in voted.items()
        for number in range(count)
    ]
    robots = [each.model_copy(update={"query_id": f"robot-{each.query_id}", "robot": True}) for each in preferences[:2]]
    preferences += robots
    silent = (f"silent{number}" for number in range(2600 - len(preferences)))
    more: dict[str, Any] = {"mode": "interleave", "page": [], "overlap": 0.61, "cpu_ms": 0.4}
    comparisons = [
        PairedRankings(query_id=query, a=["x"] * (number >= 4), b=["y"] * (number >= 3), **about, **more)
        for number, query in enumerate([*(each.query_id for each in preferences), *silent])
    ]
    lost: dict[str, Any] = {**about, **more, "a": [], "b": []}
    comparisons += [
        PairedRankings(query_id=f"late{number}", incomplete=["a", "b"] if number < 13 else ["b"], **lost)
        for number in range(50)
    ]
    report = make_report("words-first", Until(), hear(comparisons, preferences))
    assert [*describe_report(report)] == BLOCKS["text verdict"].splitlines()


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_crowd_prints_what_the_page_says(tmp_path: Path) -> None:
    """The lines of the page are those that the command prints, to the figures."""
    command = [sys.executable, "-m", "flows.cli", "demo", "--crowd", "--keep", str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, done.stderr
    printed = [_without_figures(line) for line in done.stdout.splitlines()]
    for line in BLOCKS["text crowd"].splitlines():
        beginning = _without_figures(line.removesuffix("…"))
        assert any(each.startswith(beginning) for each in printed), (beginning, done.stdout)


def _without_figures(line: str) -> str:
    return re.sub(r"\d[\d,.]*", "", line)
