"""`python -m bench flow`: CPU a query, latency and saturation of the search flow beside services that do its work by
hand, and beside itself with other settings. `scale`: how CPU and memory grow with documents, partitions, candidates
and the like. `micro`: has a part of it become slower? `soak`: does it grow? `rank`: what ranking one query costs, by
recipe. `rerank`: what batching across queries is worth, and with `--faults` what a failing reranker costs. `cache`:
what the exact cache is worth. `rules`: what 10,000 rules cost.
`models`: what the models in the process do, beside plain loops. `connections`: what a call costs over HTTP.
`payloads`: how many fetches the payload cache spares. `paraphrases`: the questions that the semantic cache takes for
one, rightly and wrongly. `recall`: what the vector leg finds of the nearest documents, by `qdrant.search.hnsw_ef`.
`experiments`: what the sequential test of two rankings needs and how often it errs, by simulation. `crowd`: simulated
users, who ask and click, on flows that run.
`quality`: what each recipe reaches on judged queries, beside the CPU of a query and the bytes of a document.
`server`: CPU a query and a document on a real Qdrant server, beside services that are written by hand. `system`: CPU a
query of all processes, with the models in the process, beside a service that is written by hand, and quality. `calls`:
the Python calls of a query, by room or function.

In the flow everything between the topics is real except the backends, whose latency is fixed, so that only the
pipeline's own cost is seen. Exit codes: 0 ok, 1 if it failed, queries were lost or, in a soak, answered twice,
something grew, a soak at saturation was not steady, or the semantic cache would answer another question; 2 usage.
"""

import argparse
import math
import signal
import sys
from pathlib import Path
from typing import get_args

from bench import caching, real_server, recall, system
from bench.commands import (
    COMPARED,
    SUBJECTS,
    answered,
    cached,
    called,
    carried,
    compared,
    crowded,
    experimented,
    failing,
    flow,
    judged,
    kept,
    modelled,
    parts,
    profile,
    ranked,
    recalled,
    reranked,
    ruled,
    saturated,
    scaled,
    served,
    soaked,
    stderr,
)
from bench.dimensions import DIMENSIONS
from bench.figures import BenchError
from bench.kafka.broker import BrokerError
from bench.rounds import Plan
from bench.scaling import quick
from bench.soak import Soak
from bench.subject import RANKSTREAM

QUICK = Plan(rates=[50.0], seconds=3.0, rounds=1, burst=200, warm_up=50)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("flow", help="measure the search flow")
    command.set_defaults(run=_flow)
    command.add_argument("--rates", type=_positive, nargs="+", default=[100, 350], help="queries a second")
    command.add_argument("--seconds", type=_positive, default=20, help="at each rate")
    command.add_argument("--rounds", type=_count, default=3)
    command.add_argument("--burst", type=_none_or_more, default=4000, help="queries at once; 0: no burst")
    command.add_argument("--warm-up", type=_count, default=500, help="queries before each round")
    command.add_argument(
        "--subject", choices=SUBJECTS, nargs="+", default=list(COMPARED), help="what is measured, in interleaved rounds"
    )
    command.add_argument("--quick", action="store_true", help="one short round: it says whether the bench works")
    command.add_argument("--plot", type=Path, metavar="PNG", help="a picture of the figures")
    command.add_argument(
        "--profile",
        action="store_true",
        help="where time goes at the highest rate, in the first subject, in place of figures",
    )
    command.add_argument("--flame", type=Path, metavar="PNG", help="with --profile: the busiest thread's flame graph")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("calls", help="count the Python calls a query, by room")
    command.set_defaults(run=lambda arguments: called(arguments.functions, arguments.json))
    command.add_argument("--functions", type=_count, metavar="N", help="the N most called functions in place of rooms")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("soak", help="load the search flow for long and look for growth")
    command.set_defaults(run=_soak)
    command.add_argument("--queries", type=_count, default=100_000)
    command.add_argument("--rate", type=_positive, default=200.0, help="queries a second; below saturation")
    command.add_argument("--client", choices=RANKSTREAM, default="kafka-python")
    command.add_argument("--namespaces", type=_count, default=100_000, help="that are asked, and that have a watermark")
    command.add_argument("--at-once", action="store_true", help="the backends answer without delay")
    command.add_argument("--saturated", action="store_true", help="in bursts, in place of a rate: as fast as it can")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("rank", help="measure ranking, by recipe and size of the pool")
    command.set_defaults(run=lambda arguments: ranked(arguments.rounds, arguments.json))
    command.add_argument("--rounds", type=_count, default=15)
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("rerank", help="measure batching across queries")
    command.set_defaults(run=_rerank)
    command.add_argument("--rounds", type=_count, default=5)
    command.add_argument("--faults", action="store_true", help="what a failing reranker costs, in place of that")
    command.add_argument("--queries", type=_count, default=600, help="of each fault")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("models", help="measure the models in the process beside plain loops")
    command.set_defaults(run=modelled)
    command.add_argument("--rounds", type=_count, default=5)
    command.add_argument("--cache", type=Path, default=Path("~/.cache/rankstream").expanduser(), help="of the model")
    command.add_argument("--plot", type=Path, metavar="PNG", help="a picture of the ratios")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("connections", help="measure a call over our HTTP pool beside httpx's own")
    command.set_defaults(run=lambda arguments: carried(arguments.rounds))
    command.add_argument("--rounds", type=_count, default=5)
    command = commands.add_parser("micro", help="measure single parts of the flow against their baseline")
    command.set_defaults(run=lambda arguments: parts(arguments.rounds, arguments.update, arguments.json))
    command.add_argument("--rounds", type=_count, default=7)
    command.add_argument("--update", action="store_true", help="make what is measured the baseline")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("cache", help="measure the exact cache, on queries by Zipf's law")
    command.set_defaults(run=_cache)
    command.add_argument("--queries", type=_count, default=20_000, help="of 10,000 texts")
    command.add_argument("--rounds", type=_count, default=5, help="that the queries are spread over")
    command.add_argument("--rate", type=_positive, help="queries a second, in place of a round's at once")
    command.add_argument("--client", choices=RANKSTREAM, default="kafka-python")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("rules", help="measure the start and CPU a query with rules beside none")
    command.set_defaults(
        run=lambda arguments: ruled(_plan(arguments), arguments.client, arguments.rules, arguments.json)
    )
    command.add_argument("--rules", type=_count, default=10_000)
    command.add_argument("--rates", type=_positive, nargs="+", default=[200.0], help="queries a second")
    command.add_argument("--seconds", type=_positive, default=20, help="at each rate")
    command.add_argument("--rounds", type=_count, default=5)
    command.add_argument("--burst", type=_none_or_more, default=2000, help="queries at once; 0: no burst")
    command.add_argument("--warm-up", type=_count, default=500, help="queries before each round")
    command.add_argument("--client", choices=RANKSTREAM, default="librdkafka")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("server", help="measure the flows on the Qdrant server that QDRANT_BINARY names")
    command.set_defaults(run=_server)
    command.add_argument("--documents", type=_count, nargs="+", default=[20_000])
    command.add_argument("--shards", type=_count, nargs="+", default=[1, 3], help="of a collection, on one node")
    command.add_argument("--rates", type=_positive, nargs="+", default=[10.0], help="queries a second")
    command.add_argument("--seconds", type=_positive, default=6, help="at each rate")
    command.add_argument("--rounds", type=_count, default=3)
    command.add_argument("--burst", type=_none_or_more, default=300, help="queries at once; 0: no burst")
    command.add_argument("--warm-up", type=_count, default=50, help="queries before each round")
    command.add_argument(
        "--subject", choices=real_server.SUBJECTS, nargs="+", default=[*real_server.SUBJECTS], help="what is measured"
    )
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("system", help="measure the flow with models in its process beside a service")
    command.set_defaults(run=_system)
    command.add_argument("--judged", type=Path, required=True, help="directory of documents, queries and judgements")
    command.add_argument("--reranker", choices=get_args(system.Model), default="late_interaction")
    command.add_argument("--candidates", type=_count, nargs="+", default=[5, 20, 50])
    command.add_argument("--rates", type=_positive, nargs="+", default=[10.0], help="queries a second")
    command.add_argument("--seconds", type=_positive, default=10, help="at each rate")
    command.add_argument("--rounds", type=_count, default=3)
    command.add_argument("--burst", type=_none_or_more, default=300, help="queries at once; 0: no burst")
    command.add_argument("--zipf", type=_none_or_more, default=500, help="queries at once, of 10,000 texts; 0: none")
    command.add_argument("--warm-up", type=_count, default=50, help="queries before each round")
    command.add_argument(
        "--subject", choices=system.SUBJECTS, nargs="+", default=[*system.SUBJECTS], help="what is measured"
    )
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("scale", help="measure how CPU a query and memory grow, by dimension")
    command.set_defaults(run=_scale)
    command.add_argument("--dimension", choices=DIMENSIONS, nargs="+", default=[*DIMENSIONS], help="each by itself")
    command.add_argument("--rounds", type=_count, default=3)
    command.add_argument("--client", choices=RANKSTREAM, default="librdkafka")
    command.add_argument(
        "--quick", action="store_true", help="two values, few queries: it says whether the bench works"
    )
    command.add_argument("--plot", type=Path, metavar="DIRECTORY", help="a picture of each, growth-DIMENSION.png")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("payloads", help="simulate the payload cache, on queries by Zipf's law")
    command.set_defaults(run=lambda arguments: kept(arguments.writes, arguments.json))
    command.add_argument("--writes", type=float, nargs="+", default=[0.0, 10.0], help="documents written a second")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("paraphrases", help="compare labelled pairs of questions as the semantic cache does")
    command.set_defaults(run=lambda arguments: compared(arguments.judged, arguments.json))
    command.add_argument("--judged", type=Path, help="a directory with queries.jsonl and qrels.txt, in place of them")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("experiments", help="simulate experiments: queries needed, and false alarms")
    command.set_defaults(run=lambda arguments: experimented(arguments.queries, arguments.runs, arguments.json))
    command.add_argument("--queries", type=_count, default=20_000, help="by which the crowd is known")
    command.add_argument("--runs", type=_count, default=1000, help="experiments for each figure")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("crowd", help="ask and click as simulated users of flows that run")
    command.set_defaults(run=crowded)
    command.add_argument("--config", type=Path, required=True, help="of the flows")
    command.add_argument("--queries", type=Path, required=True, help="judged queries")
    command.add_argument("--qrels", type=Path, required=True, help="their judgements")
    command.add_argument("--users", type=_count, default=12, help="who ask each query")
    command.add_argument("--seed", type=int, default=0, help="of the clicks; it is in the queries' ids, too")
    command = commands.add_parser("recall", help="measure the recall of the vector leg by hnsw_ef")
    command.set_defaults(run=recalled)
    command.add_argument("--points", type=_count, default=recall.POINTS)
    command.add_argument("--namespaces", type=_count, default=1, help="that the points are in; one is searched")
    command.add_argument("--queries", type=_count, default=300)
    command.add_argument("--rounds", type=_count, default=5)
    command.add_argument("--cache", type=Path, default=Path("~/.cache/rankstream").expanduser(), help="of the model")
    command.add_argument("--index", type=Path, help="directory for the index. Default: a temporary one")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("quality", help="measure recipes on judged queries: quality, CPU, and bytes indexed")
    command.set_defaults(run=judged)
    command.add_argument("--documents", type=Path, required=True)
    command.add_argument("--queries", type=Path, required=True)
    command.add_argument("--qrels", type=Path, required=True)
    command.add_argument("--recipe", nargs="+", default=[], help="Default: all that are shipped, and those of --config")
    command.add_argument("--config", type=Path, help="of the models, the recipes and the index")
    command.add_argument("--index", type=Path, help="directory for the index. Default: a temporary one")
    command.add_argument("--plot", type=Path, metavar="PNG", help="a picture of quality over cost")
    command.add_argument("--allow-partial", action="store_true", help="exit with 0 though answers are not whole")
    command.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args()


def _flow(arguments: argparse.Namespace) -> int:
    plan = _plan(arguments)
    if arguments.quick:
        plan = QUICK
    if arguments.flame and not arguments.profile:
        stderr.print("--flame draws a profile: add --profile", style="red")
        return 2
    if arguments.profile:
        return profile(plan, arguments.subject[0], arguments.json, arguments.flame)
    return flow(plan, arguments.subject, arguments.json, arguments.plot)


def _plan(arguments: argparse.Namespace) -> Plan:
    return Plan(arguments.rates, arguments.seconds, arguments.rounds, arguments.burst, arguments.warm_up)


def _scale(arguments: argparse.Namespace) -> int:
    dimensions = [DIMENSIONS[name] for name in dict.fromkeys(arguments.dimension)]
    if arguments.quick:
        dimensions = [*map(quick, dimensions)]
    return scaled(dimensions, arguments.rounds, arguments.client, arguments.json, arguments.plot)


def _server(arguments: argparse.Namespace) -> int:
    plan = _plan(arguments)
    scales = [real_server.Scale(documents, shards) for documents in arguments.documents for shards in arguments.shards]
    return served(scales, arguments.subject, plan, arguments.json)


def _system(arguments: argparse.Namespace) -> int:
    plan = _plan(arguments)
    load = system.Load(plan, arguments.zipf)
    return answered(arguments.judged, arguments.reranker, arguments.candidates, arguments.subject, load, arguments.json)


def _soak(arguments: argparse.Namespace) -> int:
    if arguments.saturated:
        return saturated(arguments.queries, arguments.client, arguments.at_once, arguments.json)
    plan = Soak(arguments.queries, arguments.rate, arguments.namespaces)
    return soaked(plan, arguments.client, arguments.at_once, arguments.json)


def _rerank(arguments: argparse.Namespace) -> int:
    if arguments.faults:
        return failing(arguments.queries, arguments.json)
    return reranked(arguments.rounds, arguments.json)


def _cache(arguments: argparse.Namespace) -> int:
    plan = caching.Rounds(arguments.queries, arguments.rate, arguments.rounds)
    return cached(plan, arguments.client, arguments.json)


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError
    return number


def _count(text: str) -> int:
    return int(_positive(str(int(text))))


def _none_or_more(text: str) -> int:
    return _count(text) if int(text) else 0


def main() -> None:
    """Run the command line."""
    arguments = _arguments()
    # So that the processes of the rig end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        raise SystemExit(arguments.run(arguments))
    except (BenchError, BrokerError) as error:
        stderr.print(str(error), style="red", highlight=False, markup=False)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
