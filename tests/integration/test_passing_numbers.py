"""Questions with a number in passing, in the running flow with the model's weights: what has only that is not first."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings

ANSWERS: Final = {
    "laptop": ("Laptops for students", "Light laptops with a long battery life, for notes in lectures and at home."),
    "bicycle": ("City bicycles", "A bicycle for commuting in town, with lights and mudguards."),
    "coffee": ("Espresso machines for the kitchen", "Which coffee machine grinds beans and foams milk at home."),
    "boots": ("Hiking boots for women", "Waterproof boots for walking in the mountains."),
    "tax": ("Filing a tax return as a freelancer", "Which forms a freelancer fills in, and what can be deducted."),
    "visa": ("Working visa for nurses", "How nurses from abroad apply for a visa to work here."),
}
QUESTIONS: Final = {
    "best laptop for students 2031": "laptop",
    "top 17 bicycles for commuting in town": "bicycle",
    "2031 coffee machine for home": "coffee",
    "waterproof hiking boots women 17 euro": "boots",
    "how does a freelancer file a tax return in 2031": "tax",
    "nurse 17 looking for a working visa": "visa",
}
NUMBERS: Final = ("2031", "17")
UNRELATED: Final = ("Report {0}", "The council met {0} times, and {0} budgets were approved.")
KINDS: Final = ("black", "small", "cheap", "used", "simple", "foreign")


def documents() -> Iterator[dict[str, Any]]:
    """Answers of several kinds, and for each number a text about something else."""
    for id_, (title, text) in ANSWERS.items():
        for times, kind in enumerate(KINDS):
            # Real texts say their subject once or several times.
            said = " ".join([text, *[f"{title}."] * times])
            yield {"id": f"{id_}-{kind}", "title": f"{title}: {kind}", "text": said}
    for number in NUMBERS:
        title, text = UNRELATED
        yield {"id": number, "title": title.format(number), "text": text.format(number)}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryClient]:
    """A client of the search flow, with the documents indexed."""
    directory = tmp_path_factory.mktemp("passing-numbers")
    with start_with_settings(embedded_settings(directory, {"qdrant": {"path": str(directory)}})) as running:
        index_once(running, "documents", lambda: enumerate(documents(), 1), "1", directory, Console(quiet=True))
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            yield client


@pytest.mark.weights
@pytest.mark.parametrize("rerank", [False, True])
@pytest.mark.parametrize(("text", "id_"), QUESTIONS.items())
def test_a_number_in_passing_puts_nothing_else_first(client: QueryClient, text: str, id_: str, rerank: bool) -> None:
    """In the recipe `hybrid`, with the model and without it, an answer is first, which lacks the number."""
    [result] = client.ask([{"query_id": f"{text} {rerank}", "text": text, "rerank": rerank}], 60)
    assert result["results"][0]["id"].startswith(id_)
