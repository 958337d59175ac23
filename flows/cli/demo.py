"""`rankstream demo`: everything in this process, on the user's documents or the docstrings that each Python carries."""

import functools
import importlib
import inspect
import os.path
import pkgutil
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Final, Self

import orjson
import typer
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, format_trace_id
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from flows.cli.config import begin_quietly
from flows.cli.console.waterfall import trace_spans
from flows.cli.ingestion import DocumentReader, index_once
from flows.cli.init import Sample, print_mapping, write_yaml
from flows.cli.output import SHOWN, STDIN, UNANSWERED, Json, hint_of_nothing, input_file, out, print_result, say, stderr
from flows.cli.query import EXAMPLE, FilterOption, QueryClient, filter_option
from flows.cli.records import Records, copy_stdin
from flows.process.embedded import embedded_settings, start_with_settings
from schemas.query import MAX_LIMIT
from schemas.settings import Settings, load
from schemas.texts import printable

NAMESPACE = "python"
SHORTEST = 30
"""Characters of a docstring below which it says too little to be searched for."""

# Importing these prints, opens a browser, changes the terminal or needs a display.
_LOUD = frozenset({"antigravity", "idlelib", "readline", "rlcompleter", "this", "tkinter", "turtle", "turtledemo"})
# These tell a reader nothing: tests, a hundred codecs of the same three sentences, the fixers of Python 2 programs,
# what setuptools puts in place of `distutils`, the private half of os.path.
_IDLE = frozenset({"distutils", "encodings", "genericpath", "lib2to3", "test", "tests"})


def docstrings() -> Iterator[dict[str, str]]:
    """Yield a document event for each public module, class, function, method and property with a docstring.

    `id` and `title` are the qualified name, nearest the library's top if there are several; `module` and `kind` say
    where the text is from. Order and texts are the same in every process of one Python version. All public modules are
    imported, apart from those that this platform lacks.
    """
    events, seen = {}, dict[int, object]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in _modules():
            for name, thing, kind in _walk_module(module, seen):
                doc = getattr(thing, "__doc__", None)
                if isinstance(doc, str) and len(doc := inspect.cleandoc(doc)) >= SHORTEST:
                    about = {"module": _name(module), "kind": kind}
                    events[name] = {"id": name, "namespace": NAMESPACE, "title": name, "text": doc, **about}
    yield from events.values()


def _modules() -> list[ModuleType]:
    # All of them before the first is read: importing a module may replace a name in its package.
    names = [name for name in sys.stdlib_module_names if _public(name)]
    modules: dict[str, ModuleType] = {}
    while names:
        name = names.pop()
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        modules[name] = module
        inner = pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}.")
        names += [found.name for found in inner if _public(found.name.rpartition(".")[2])]
    return [modules[name] for name in sorted(modules, key=lambda name: (name.count("."), name))]


def _public(name: str) -> bool:
    return not name.startswith("_") and name not in _LOUD | _IDLE


def _name(module: ModuleType) -> str:
    return "os.path" if module is os.path else module.__name__


_Named = tuple[str, object, str]
"""A thing with its name and its kind."""


def _walk_module(module: ModuleType, seen: dict[int, object]) -> Iterator[_Named]:
    yield from _walk(_name(module), module, "module", seen)
    listed = getattr(module, "__all__", None)
    for attribute in sorted(listed if listed is not None else vars(module)):
        member = getattr(module, attribute, None)
        home = getattr(member, "__module__", None) or ""
        # A debugger or a test runner may have put its own function in place of the library's.
        own = home.removeprefix("_") == module.__name__
        own |= listed is not None and home.partition(".")[0] in sys.stdlib_module_names
        if own and not attribute.startswith("_") and (inspect.isclass(member) or inspect.isroutine(member)):
            yield from _walk(f"{_name(module)}.{attribute}", member, "function", seen)


def _walk(name: str, thing: object, kind: str, seen: dict[int, object]) -> Iterator[_Named]:
    """The thing and the members of a class, unless it is `seen`, which has the things: no identity is used twice."""
    attributes = vars(thing) if inspect.isclass(thing) else None
    thing = getattr(thing, "__func__", thing)
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    yield name, thing, kind if attributes is None else "class"
    if attributes is None:
        return
    public = [key for key in attributes if not key.startswith("_")]
    # A method with two names goes by the one that it was defined with.
    for attribute in sorted(public, key=lambda key: (getattr(attributes[key], "__name__", key) != key, key)):
        inner = attributes[attribute]
        if isinstance(inner, property) or inspect.isdatadescriptor(inner):
            yield from _walk(f"{name}.{attribute}", inner, "property", seen)
        elif inspect.isclass(inner) or inspect.isroutine(inner):
            yield from _walk(f"{name}.{attribute}", inner, "method", seen)


QUERIES: Final = (
    "parse a date from a string",
    "run a command and capture its output",
    "create a temporary directory that is removed afterwards",
    "read the rows of a CSV file",
)

_ANSWER_TIMEOUT: Final = 60.0
_DIGITS: Final = 16


@dataclass(frozen=True)
class Corpus:
    """The demo's documents of a `version` by a name, the settings they are read with, and the queries' namespace.

    `wrong` are records that are no documents, each with the reason. `written` is the configuration that was chosen.
    `total` is the number of documents, None if it is not known.
    """

    name: str
    documents: DocumentReader
    version: str
    directory: str
    settings: Settings
    namespace: str
    wrong: Sequence[str] = ()
    written: str | None = None
    total: int | None = None

    @classmethod
    def of_file(cls, path: Path, config: Path | None, namespace: str | None, console: Console) -> Self:
        """Documents as a program exported them, read as the configuration says, or else as their values show."""
        written, wrong = None, list[str]()
        if config is not None:
            settings = load(config, index=Path())
            records = Records.of(path, settings.documents)
            rejected, total = records.survey()
            wrong += map(str, rejected)
        else:
            records = Records.of(path)
            sample = Sample.of_file(records, path.name)
            mapping = sample.infer()
            print_mapping(mapping, sample, console)
            written, wrong, total = write_yaml(mapping, sample), [*sample.skipped], sample.total
            settings = embedded_settings(Path(), mapping.settings())
            if namespace is None and mapping.namespaces:
                namespace = mapping.namespaces[0][0]
                say(console, f"searched: namespace {namespace}; --namespace names another")
        searched = namespace if namespace is not None else settings.defaults.namespace
        version = records.version()
        own = records.usable, version, f"own-{version[:_DIGITS]}", settings, searched
        return cls(path.name, *own, wrong, written, total - len(wrong))

    @classmethod
    def load_shipped(cls, config: Path | None) -> Self:
        """The documentation of Python's standard library, which is imported only if the index lacks it."""
        documents = functools.cache(lambda: list(enumerate(docstrings(), 1)))
        settings = embedded_settings(Path()) if config is None else load(config, index=Path())
        return cls("the standard library's docstrings", documents, sys.version, "demo", settings, NAMESPACE)

    def directory_in(self, cache: Path) -> Path:
        """The directory of the index: an index of other settings is none that can be opened with these."""
        return cache / f"{self.directory}-{self.settings.index_hash()[:_DIGITS]}"

    def keep_in(self, directory: Path) -> Path:
        """The directory of the index below one of the user's, which gets the configuration, too."""
        directory.mkdir(parents=True, exist_ok=True)
        if self.written is not None:
            (directory / "rankstream.yaml").write_text(self.written, encoding="utf-8")
        return directory / "index"


def demo(
    query: Annotated[
        list[str] | None, typer.Option("--query", help="Query to send in place of the examples; may be repeated.")
    ] = None,
    documents: Annotated[
        Path | None,
        input_file(
            "Your own documents: a file of JSON Lines, JSON or CSV, a folder of Markdown or HTML, or - for standard"
            " input.",
            folder=True,
            stdin=True,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML configuration file of your documents, models, recipes and index, without its servers. Default:"
            " decided by the documents, as `init` does."
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(help="Namespace of your own documents to search. Default: the one with most documents."),
    ] = None,
    filters: Annotated[
        list[FilterOption] | None,
        filter_option(f"Condition on a field, or a filter as JSON, such as '{EXAMPLE}'; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Number of results per query.")] = 5,
    crowd: Annotated[
        bool, typer.Option("--crowd", help="Have simulated users compare two recipes, and tune one; takes minutes.")
    ] = False,
    serve_on: Annotated[
        bool, typer.Option("--serve", help="Keep the broker and the flow running, with the console, until Ctrl-C.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            metavar="DIRECTORY",
            help="Directory for the index and the chosen configuration. Default: the index is in the cache.",
        ),
    ] = None,
    cache_dir: Annotated[
        Path, typer.Option(envvar="RANKSTREAM_CACHE_DIR", help="Directory for the model's graph and the index.")
    ] = Path("~/.cache/rankstream"),
    as_json: Json = False,
) -> None:
    """Search the documentation of Python's standard library, or your own documents, which need a --query or --serve.

    Broker and index run in this process. Documents are taken as another program exported them; the command prints the
    fields that it chose, and counts documents that cannot be taken. Exit code 1 if a query is refused, or if no leg
    could be searched.
    """
    begin_quietly()
    if documents is not None and not (query or serve_on):
        raise typer.BadParameter("own documents need a --query, or --serve", param_hint="--documents")
    if crowd and (query or documents is not None or config is not None or serve_on):
        wrong = "its users ask about the documentation: not with --query, --documents, --config or --serve"
        raise typer.BadParameter(wrong, param_hint="--crowd")
    cache, console = cache_dir.expanduser(), stderr if as_json else out
    if documents is None:
        corpus = Corpus.load_shipped(config)
    else:
        corpus = Corpus.of_file(copy_stdin(cache) if documents == STDIN else documents, config, namespace, console)
    directory = corpus.keep_in(keep) if keep is not None else corpus.directory_in(cache)
    if crowd:
        # That module imports this one.
        from flows.cli.crowd import walk

        walk(corpus, directory, (keep or directory) / "crowd", console, as_json=as_json)
        return
    spans = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "rankstream"}))
    provider.add_span_processor(SimpleSpanProcessor(spans))
    statuses, read = set(), [each.read(corpus.settings) for each in filters or ()]
    with start_with_settings(corpus.settings, directory, provider) as running:
        source = corpus.name, corpus.documents, corpus.version, directory, console
        index_once(running, *source, total=corpus.total, complete=False, wrong=corpus.wrong)
        kafka = running.settings.kafka
        connection = QueryClient.connect(running.kafka, kafka.topics, provider.get_tracer("producer"))
        with running.searching(), connection as query_client:
            for number, text in enumerate(query or (QUERIES if documents is None else ()), 1):
                spans.clear()
                event = {"query_id": f"demo-{number}", "text": text, "limit": limit, "return": SHOWN}
                event |= {"namespace": corpus.namespace, **({"filters": read} if read else {})}
                [result] = query_client.ask([event], _ANSWER_TIMEOUT)
                print_result(result, text, as_json, corpus.settings.documents.columns.get("title", "title"))
                if not as_json:
                    hint_of_nothing(result, corpus.namespace, filtered=bool(filters))
                statuses.add(result["status"])
            if serve_on:
                # A demo that answers and ends starts a sixth sooner without the web server.
                from flows.cli.console.server import QRELS, serve_embedded

                served = f"broker {kafka.bootstrap_servers}, topics {kafka.topics.queries} and {kafka.topics.results}"
                say(console, f"{served}; ask from another terminal:")
                say(console, _command(running.settings, directory, corpus.namespace))
                serve_embedded(running, provider, spans, directory / QRELS, console)
    console.print(span_tree(spans.get_finished_spans()))
    if keep is not None and corpus.written is not None:
        say(console, f"kept: {keep / 'rankstream.yaml'} and the index {directory}")
    raise typer.Exit(1 if statuses & UNANSWERED else 0)


def _command(settings: Settings, directory: Path, namespace: str) -> str:
    """The command that asks the demo while it runs, by a file with its own sections of what clients read."""
    config, sections = directory / "rankstream.yaml", {"kafka", "documents", "qdrant", "defaults"}
    said = settings.model_dump(mode="json", include=sections, exclude_defaults=True)
    # JSON is YAML.
    config.write_bytes(orjson.dumps(said, option=orjson.OPT_INDENT_2))
    named = f"--namespace {shlex.quote(namespace)} " if namespace != settings.defaults.namespace else ""
    return f'rankstream query --config {shlex.quote(str(config))} {named}"your question"'


def span_tree(spans: Sequence[ReadableSpan]) -> Tree:
    """The spans of a trace, children under their parents, in the order in which they began."""
    # The trace before may have ended late: the last one that a producer began is meant, and the batches it links to.
    roots = (span for span in spans if span.kind is SpanKind.PRODUCER and not span.parent)
    began = max(roots, key=_start, default=None)
    context = began.context if began is not None else None
    spans = trace_spans(spans, format_trace_id(context.trace_id)) if context is not None else []
    ids = {span.context.span_id for span in spans if span.context is not None}
    tree = Tree("trace")

    def add(branch: Tree, parent: int | None) -> None:
        for span in sorted(spans, key=_start):
            above = span.parent.span_id if span.parent is not None and span.parent.span_id in ids else None
            if above == parent and span.context is not None:
                taken = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
                line = Text.assemble(printable(span.name), (f" {span.kind.name.lower()} {taken:.1f} ms", "dim"))
                add(branch.add(line), span.context.span_id)

    add(tree, None)
    return tree


def _start(span: ReadableSpan) -> int:
    return span.start_time or 0
