"""Wrong arguments and missing files: each is one to three lines that say what is wrong, and no traceback."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.ports import free_port
from flows.cli.demo import Corpus
from flows.cli.main import command_line, outline, run_command_line

EVALUATE = "evaluate --qrels qrels.txt"
TUNE = "tune --qrels qrels.txt --pools documents.jsonl"


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process has its own logging and hook for exceptions again after each test."""
    monkeypatch.setattr("sys.excepthook", sys.excepthook)
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = before, level


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("rum", 2, "No such command 'rum'"),
        ("run --bogus", 2, "No such option: --bogus (see rankstream run --help)"),
        ("run --replicas 0", 2, "'--replicas'"),
        ("run --config missing.yaml", 2, "missing.yaml: No such file or directory"),
        ("run --config wrong.yaml", 2, "kafka.client: Input should be 'librdkafka' or 'kafka-python'"),
        ("run --config away.yaml", 1, "no Kafka broker answers at 127.0.0.1:"),
        ("index --config away.yaml --from missing.jsonl", 2, "'missing.jsonl' does not exist"),
        ("index --config away.yaml --from documents.jsonl", 1, "no Kafka broker answers at 127.0.0.1:"),
        ("query --config away.yaml", 1, "no Kafka broker answers at 127.0.0.1:"),
        ("query x --config away.yaml --timeout -1", 2, "'--timeout'"),
        ("query x --config away.yaml --limit 1000", 2, "'--limit'"),
        ("query x --config away.yaml --record", 2, "--record: the pool is printed with --json"),
        ("query x --config away.yaml --filter year", 2, "'year' is neither FIELD=VALUE nor a JSON object"),
        ("console --config away.yaml --port 70000", 2, "'--port'"),
        ("console --config away.yaml --port 0", 1, "no Kafka broker answers at 127.0.0.1:"),
        ("topics --config away.yaml", 1, "no Kafka broker answers at 127.0.0.1:"),
        ("replay --config away.yaml --offset x", 2, "'x' is not TOPIC:PARTITION:OFFSET"),
        ("replay --config away.yaml --class nonsense", 2, "'nonsense' is not one of"),
        ("replay --config away.yaml", 1, "no Kafka broker answers at 127.0.0.1:"),
        ("rank --recipe nope", 2, "recipe nope: neither a YAML file nor one of"),
        ("demo --documents documents.jsonl", 2, "own documents need a --query, or --serve"),
        ("demo --crowd --query x", 2, "--crowd: its users ask about the documentation: not with --query,"),
        ("demo --documents documents.jsonl --query x --cache-dir away.yaml", 2, "the embedded Qdrant can't use"),
        ("evaluate --documents documents.jsonl", 2, "Missing option '--qrels'"),
        (f"{EVALUATE} --documents documents.jsonl", 2, "give --queries or --pools"),
        (f"{EVALUATE} --pools documents.jsonl --queries documents.jsonl", 2, "--pools: not with --queries"),
        (f"{EVALUATE} --pools documents.jsonl --documents documents.jsonl --index d", 2, "with --documents, --index"),
        (f"{EVALUATE} --pools documents.jsonl", 1, "documents.jsonl:1: neither a candidate pool"),
        (f"{EVALUATE} --pools missing.jsonl", 2, "'missing.jsonl' does not exist"),
        (f"{EVALUATE} --pools documents.jsonl --recipe nope", 2, "recipe nope: neither a YAML file nor one of"),
        ("tune --qrels qrels.txt --pools documents.jsonl", 2, "Missing argument"),
        (f"{TUNE} all --metric nDCG@5", 2, "'--metric': 'nDCG@5' is not one of any@1, any@5"),
        (f"{TUNE} score=1", 2, "'score=1' is not STAGE, STAGE.PARAMETER or"),
        (f"{TUNE} score.alpha=x", 2, "'score.alpha=x': the values are not JSON"),
        (f"{TUNE} scores", 2, "no recipe has the stages scores"),
        (f"{TUNE} score.beta", 2, "score.beta: the stage has no such parameter"),
        (f"{TUNE} dedupe", 2, "no parameter of it is a number"),
        (f"{TUNE} all --queries documents.jsonl", 2, "--pools: not with --queries"),
        (f"{TUNE} all --trials 0", 2, "'--trials'"),
        (f"{TUNE} all --write away.yaml", 2, "--write: away.yaml exists"),
        ("compare a.run away.yaml --qrels qrels.txt", 2, "'a.run' does not exist"),
        ("compare away.yaml --qrels qrels.txt", 2, "Missing argument"),
        (
            "compare away.yaml documents.jsonl --qrels qrels.txt",
            1,
            "away.yaml: line 1: expected `query Q0 document rank",
        ),
        ("evaluate --queries documents.jsonl --qrels away.yaml", 2, "give --documents, or --config with an index"),
        ("evaluate --queries documents.jsonl --qrels away.yaml --config c --index d", 2, "the index of --documents"),
        ("collections --config unmade.yaml", 2, "the embedded Qdrant can't use"),
        ("check --part disk", 2, "'disk' is not one of"),
        ("schema nope", 2, "Invalid value for 'name': 'nope' is not one of"),
        ("config --config wrong.yaml", 2, "kafka.client: Input should be 'librdkafka' or 'kafka-python'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: str,
    code: int,
    said: str,
) -> None:
    """It ends with 2 for arguments and configuration, and with 1 for what is not there."""
    broker = f"kafka: {{bootstrap_servers: '127.0.0.1:{free_port()}'}}\n"
    (tmp_path / "away.yaml").write_text(f"{broker}qdrant: {{url: 'http://127.0.0.1:9'}}\ntelemetry: {{port: 0}}\n")
    (tmp_path / "wrong.yaml").write_text("kafka: {client: carrier-pigeon}\nqdrant: {url: 'http://127.0.0.1:9'}\n")
    (tmp_path / "unmade.yaml").write_text(f"{broker}qdrant: {{path: away.yaml/engine}}\n")
    (tmp_path / "documents.jsonl").write_text('{"id": "a", "text": "b"}\n')
    (tmp_path / "qrels.txt").write_text("q 0 a 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["rankstream", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        run_command_line()
    printed = capfd.readouterr().err
    assert ended.value.code == code
    assert said in " ".join(printed.split())
    assert "Traceback" not in printed
    assert len(printed.strip().splitlines()) <= 3


def test_a_taken_port_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The line names the setting; no broker is asked for, so no other process is fenced."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "c.yaml").write_text(
            f"qdrant: {{url: 'http://127.0.0.1:9'}}\ntelemetry: {{host: 127.0.0.1, port: {port}}}\n"
        )
        monkeypatch.setattr("sys.argv", ["rankstream", "run", "--config", str(tmp_path / "c.yaml")])
        with pytest.raises(SystemExit) as ended:
            run_command_line()
    assert ended.value.code == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "telemetry.port: cannot listen on 127.0.0.1:" in line
    assert "RANKSTREAM_TELEMETRY__PORT" in line


def test_a_command_imports_no_other_one() -> None:
    """The help of a command comes without what the flows need, which takes longer to import than many commands take."""
    asked = "import sys; sys.argv = ['rankstream', 'config', '--help']; from flows.cli.main import run_command_line\n"
    asked += "try: run_command_line()\nexcept SystemExit: print('flows.cli.run' in sys.modules, 'kafka' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "False False"


def test_help_imports_no_command() -> None:
    """The help of all commands needs neither the engine of the flows nor a client or a model."""
    script = (
        "import sys; sys.argv = ['rankstream', '--help']\n"
        "from flows.cli.main import run_command_line\n"
        "try: run_command_line()\n"
        "except SystemExit: pass\n"
        "heavy = {'bytewax', 'kafka', 'numpy', 'onnxruntime', 'pydantic_settings', 'qdrant_client'}\n"
        "print('imported', *heavy & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported"


def test_help_says_of_each_command_what_the_command_says() -> None:
    """The help that is read from the sources is that of the functions."""
    quick, whole = (
        CliRunner().invoke(made, ["--help"]).output for made in (command_line(load=outline), command_line())
    )
    assert "replay" in quick
    assert quick == whole


def test_the_demo_has_an_index_for_each_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index made with other settings stays where it is, and the demo makes one beside it."""
    before = Corpus.load_shipped(None).directory_in(tmp_path)
    assert Corpus.load_shipped(None).directory_in(tmp_path) == before
    monkeypatch.setattr("flows.process.embedded._VECTORS", {})
    assert Corpus.load_shipped(None).directory_in(tmp_path) != before


def test_a_namespace_is_forgotten_without_a_filter_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`forget` refuses such a filter before it asks any server: a document that comes late could not be matched."""
    monkeypatch.setattr("flows.cli.forget.ask_collections", lambda *_: pytest.fail("the index was asked"))
    settings = {"RANKSTREAM_QDRANT__PATH": "nowhere", "COLUMNS": "300"}
    command = ["forget", "--namespace", "a", "--filter", "namespace=b"]
    refused = CliRunner().invoke(command_line(), command, env=settings)
    assert refused.exit_code == 2
    assert "filters.0.field: the event's own `namespace` says this" in refused.output


@pytest.mark.parametrize(
    "arguments", [("index", "--from"), ("demo", "--documents"), ("evaluate", "--qrels", "/dev/null", "--queries")]
)
def test_a_pipe_that_would_be_read_twice_is_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """The second reading would find nothing, and the command would say that all is done."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = CliRunner().invoke(command_line(), [*arguments, str(pipe)])
    assert done.exit_code == 2
    assert "is read more than once" in " ".join(done.output.replace("│", " ").split())
