"""Reports: tables for a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from bench import comparison


def figures_table(report: Mapping[str, Any]) -> Table:
    """A row a load: medians, with the range over the rounds beneath."""
    shown = _table("CPU a query and latency, ms", "client", "load", "CPU", "p50", "p99", "p99.9", "a second", "answers")
    for client, row in _rows(report):
        answers = [f"{count} {status}" for status, count in sorted(row["statuses"].items())]
        answers += [f"{count} lost" for count in (row["sent"] - row["answered"],) if count]
        answers += [f"{count} twice" for count in (row["twice"],) if count]
        shown.add_row(
            client,
            _load(row),
            _ranged(row["cpu_ms_per_query"], 2),
            *(_ranged(row[name], 0) for name in ("p50_ms", "p99_ms", "p999_ms", "answered_per_s")),
            "\n".join(answers),
        )
    return shown


def ratios_table(report: Mapping[str, Any]) -> Table:
    """A row a subject and load, beside the first subject."""
    shown = _table("Beside the first", "subject", "load", "CPU", "drain", "p50, ms above")
    for name, loads in report["ratios"].items():
        for load, row in loads.items():
            figures = (_ranged(row["cpu"], 2), _ranged(row["answered_per_s"], 2), _ranged(row["p50_ms_above"], 0))
            shown.add_row(name, load, *figures)
    return shown


def server_tables(report: Mapping[str, Any]) -> list[Table]:
    """Of an index on a real server: what a document costs, what a query costs, and the ratios."""
    index = f"{report['documents']:,} documents, shards: {report['shards']}"
    written = _table(f"A document, {index}", "indexer", "CPU, ms", "a second")
    for name, row in report["indexing"].items():
        written.add_row(name, _ranged(row["cpu_ms_per_document"], 2), _ranged(row["documents_per_s"], 0))
    ratios = _table(f"CPU beside each other, {index}", "", "beside", "load", "ratio")
    for row in report["indexing_ratios"]:
        ratios.add_row(row["of"], row["to"], "documents", _ranged(row["cpu"], 2))
    for row in report["ratios"]:
        ratios.add_row(row["of"], row["to"], row["load"], _ranged(row["cpu"], 2))
    return [written, figures_table(report), ratios]


def system_tables(report: Mapping[str, Any]) -> list[Table]:
    """For each number of candidates a row a subject and load, and one a subject for its quality; a row a goal."""
    goals = [_system_goals(report["goals"])] if report["goals"] else []
    return [table for cell in report["cells"] for table in _cell_tables(cell)] + goals


def _cell_tables(cell: Mapping[str, Any]) -> tuple[Table, Table]:
    title = f"{cell['candidates']} candidates"
    shown = _table(title, "subject", "load", "CPU, ms", "with broker", "ratio", "p50, ms", "a second", "cached")
    for row in cell["rows"]:
        shown.add_row(
            row["subject"],
            row["load"],
            *(_ranged(row[name], 2) for name in ("cpu_ms_per_query", "system_ms_per_query")),
            _ranged(row["ratio"], 2) if "ratio" in row else "",
            *(_ranged(row[name], 0) for name in ("p50_ms", "answered_per_s")),
            "" if row["not_computed"] is None else f"{100 * row['not_computed']:.0f} %",
        )
    quality = _table(f"Quality, {title}", "subject", "nDCG@10", "agrees")
    for name, figures in cell["quality"].items():
        quality.add_row(name, f"{figures['nDCG@10']:.3f}", f"{figures['agreement']:.2f}")
    return shown, quality


def _system_goals(goals: Sequence[Mapping[str, Any]]) -> Table:
    shown = _table("Beside the hand-written service, in a burst", "candidates", "goal", "measured", "met")
    for goal in goals:
        measured, met = _ranged(goal["measured"], 2), "yes" if goal["met"] else "no"
        shown.add_row(str(goal["candidates"]), f"≤ {goal['bound']:g}", measured, met)
    return shown


def scaling_tables(report: Mapping[str, Any]) -> list[Table]:
    """Of a dimension: a row a value with CPU under each load and memory, and a row a figure with its exponents."""
    loads = list(comparison.rows(report["rows"][0]))
    columns = [*(f"CPU, ms: {load}" for load in loads), "MB", "answers"]
    cpu = _table(f"How a query's cost grows: {report['unit']}", "", *columns)
    for row in report["rows"]:
        measured = comparison.rows(row).values()
        spent = (_ranged(each["cpu_ms_per_query"], 2) for each in measured)
        answers = sum((Counter(each["statuses"]) for each in measured), Counter[str]())
        said = "\n".join(f"{count} {status}" for status, count in sorted(answers.items()))
        cpu.add_row(f"{row['value']:,}", *spent, _ranged(row["memory_mb"], 0), said)
    growth = _table("", "exponent", "of the cost", "of its increase", "faster than linear")
    for name, each in report["growth"].items():
        slopes = ("" if slope is None else _interval(slope, 2) for slope in (each["cost"], each["increase"]))
        growth.add_row(name, *slopes, "yes" if each["superlinear"] else "no")
    return [cpu, growth]


def payloads_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each corpus and rate of writes: what the payload cache knows, and the fetches that it spares."""
    shown = _table("The payload cache", "documents", "writes a second", "payloads known", "fetches spared")
    for row in rows:
        shares = (f"{100 * row[name]:.1f} %" for name in ("payloads_known", "fetches_spared"))
        shown.add_row(f"{row['documents']:,}", f"{row['writes_per_s']:g}", *shares)
    return shown


def rules_table(figures: Mapping[str, Any]) -> Table:
    """The cost of rules beside none, and the answers while one changed, by the set of rules that they are of."""
    shown = _table(f"{figures['rules']:,} rules", "", "none", "with them", "ratio")
    shown.add_row("start, s", *(_ranged(each, 1) for each in figures["start_s"].values()), "")
    none, many = figures["subjects"].values()
    loads = [*((f"{row['rate']:g}/s", row, other) for row, other in zip(none["rates"], many["rates"], strict=True))]
    loads += [("burst", none["burst"], many["burst"])] if none["burst"] else []
    for name, *both in loads:
        cpu = [_ranged(each["cpu_ms_per_query"], 2) for each in both]
        shown.add_row(f"CPU a query at {name}, ms", *cpu, _ranged(figures["over_none"][name]["cpu"], 3))
    by_set = ", ".join(f"{name} {count}" for name, count in figures["changing"]["by_set"].items())
    shown.add_row("answers while a rule changes", "", by_set, "")
    return shown


def experiments_tables(figures: Mapping[str, Any]) -> tuple[Table, Table]:
    """A row a known preference, with the queries that both tests need; a row a crowd, with the error of each model."""
    alarms = f"{100 * figures['alarms']:.1f} % without a difference"
    needed = _table(
        f"Queries by which this share of experiments has a winner: {alarms}",
        *("preference", "click-through", "draft 50 %", "80 %", "A/B 50 %", "80 %"),
    )
    for row in figures["preferences"]:
        through = ", ".join(f"{100 * each:.1f} %" for each in row["click_through"])
        queries = (f"{each:,.0f}" for each in (*row["sequential"], *row["ab"]))
        needed.add_row(f"{row['preference']:.2f}", through, *queries)
    errors = _table("Error of attractiveness", "users", *figures["models"][0]["error"])
    for row in figures["models"]:
        errors.add_row(row["users"], *(f"{each:.2f}" for each in row["error"].values()))
    return needed, errors


def goals_table(report: Mapping[str, Any]) -> Table:
    """A row a goal: the bound, and what was measured."""
    shown = _table("Beside the asyncio service", "client", "load", "", "goal", "measured", "met")
    for row in report["goals"]:
        bound = f"{'≥' if row['least'] else '≤'} {row['bound']:g}"
        measured = _ranged(row["measured"], 0 if row["figure"] == "p50_ms_above" else 2)
        shown.add_row(row["client"], row["load"], row["figure"], bound, measured, "yes" if row["met"] else "no")
    return shown


def parts_table(measured: Mapping[str, Any], baseline: Mapping[str, float]) -> Table:
    """A row a part of the flow: what it costs, in calibrating loops, and what it cost when the baseline was written."""
    shown = _table("Parts of the flow, in calibrating loops", "part", "now", "baseline")
    for name, ratio in measured["ratios"].items():
        shown.add_row(name, _ranged(ratio, 2), f"{baseline[name]:.2f}" if name in baseline else "")
    return shown


def paraphrases_table(report: Mapping[str, Any]) -> Table:
    """A row a threshold: the pairs that are hits by their cosine alone, and with the check of their words."""
    shown = _table(
        f"False hits of {report['close']} close questions, hits of {report['same']} paraphrases",
        "from",
        "false hits",
        "with the check",
        "hits",
        "with the check",
    )
    for row in report["thresholds"]:
        hits = [str(row[name][way]) for name in ("false_hits", "hits") for way in ("alone", "checked")]
        shown.add_row(f"{row['cosine']:.2f}", *hits)
    return shown


def kinds_table(report: Mapping[str, Any]) -> Table:
    """A row a kind of difference, at the shipped threshold."""
    shown = _table(f"At {report['shipped']:.2f}", "kind", "answer", "pairs", "hits", "with the check")
    for row in report["kinds"]:
        hits = row["hits"]
        same = "the same" if row["same"] else "another"
        shown.add_row(row["kind"], same, str(row["pairs"]), str(hits["alone"]), str(hits["checked"]))
    return shown


def ranking_table(report: Mapping[str, Any]) -> Table:
    """A row a recipe and size: CPU a query, and ratios."""
    shown = _table(
        "Ranking one query", "recipe", "candidates", "CPU, µs", "explained", "able to explain", "over arrays"
    )
    for row in report["rows"]:
        ratios = (f"{row[name]:.3f}" if name in row else "" for name in ("explained", "unasked", "arrays"))
        shown.add_row(row["recipe"], str(row["candidates"]), f"{row['cpu_us']:.0f}", *ratios)
    return shown


def models_table(report: Mapping[str, Any], names: Mapping[str, str]) -> Table:
    """A row a model's work: both rates a second of a core, and their ratio."""
    shown = _table(f"{report['model']} in this process", "", "ours", "plain loop", "ratio")
    for name, row in report["rows"].items():
        shown.add_row(names[name], _ranged(row["ours"], 0), _ranged(row["loop"], 0), _ranged(row["ratio"], 3))
    return shown


def reranking_table(report: Mapping[str, Any]) -> Table:
    """A row a comparison: both sides, and their ratio."""
    shown = _table("Batching across queries", "", "ours", "the other", "ratio")
    inside, pairs = report["in_process"], report["pairs"]
    rates = inside["pairs_per_s"]
    rows = (
        ("pairs/s in process, over a plain loop", rates["operator"], rates["loop"], inside["operator_over_loop"]),
        (
            "queries/s at a pairs server, over a request a query",
            pairs["many"]["queries_per_s"],
            pairs["one"]["queries_per_s"],
            pairs["throughput_many_over_one"],
        ),
        (
            "p99 there, ms, over a request a query",
            pairs["many"]["p99_ms"],
            pairs["one"]["p99_ms"],
            pairs["p99_many_over_one"],
        ),
    )
    for name, ours, theirs, ratio in rows:
        shown.add_row(name, _ranged(ours, 0), _ranged(theirs, 0), _ranged(ratio, 3))
    return shown


def recall_table(report: Mapping[str, Any]) -> Table:
    """A row an `hnsw_ef`: the share of the exact hits that were found, and the time of a search."""
    title = f"Recall@{report['depth']} at {report['points']} points"
    shown = _table(title, "hnsw_ef", "recall", "worst tenth", "ms", "times that of none")
    for row in report["rows"]:
        value = "none" if row["hnsw_ef"] is None else str(row["hnsw_ef"])
        found = (f"{row[name]:.3f}" for name in ("recall", "worst_tenth"))
        shown.add_row(value, *found, f"{row['ms']:.2f}", _ranged(row["ratio"], 2))
    return shown


def quality_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """A row a recipe: what it reaches, CPU a query, and the bytes of a document's vectors."""
    named = [name for name in rows[0] if name not in {"recipe", "cpu_ms", "bytes", "answers", "lost"}]
    shown = _table(title, "recipe", *named, "CPU, ms", "bytes", "answers")
    for row in rows:
        figures = (f"{row[name]:.3f}" for name in named)
        answers = ", ".join(f"{count} {status}" for status, count in sorted(row["answers"].items()))
        shown.add_row(row["recipe"], *figures, f"{row['cpu_ms']:.1f}", f"{row['bytes']:,.0f}", answers)
    return shown


def faults_table(report: Mapping[str, Any]) -> Table:
    """A row a dialect and failure of the reranker."""
    shown = _table("A failing reranker", "dialect", "failure", "answers", "p99, ms", "calls a query", "back, ms")
    for row in report["rows"]:
        said = [f"{count} {name}" for name, count in (*row["statuses"].items(), *row["reasons"].items())]
        shown.add_row(
            row["dialect"],
            row["fault"],
            ", ".join(said),
            f"{row['p99_ms']:.0f}",
            f"{row['calls_per_query']:.3f}" + ("" if row["kept"] else " too many"),
            "" if row["back_after_ms"] is None else f"{row['back_after_ms']:.0f}",
        )
    return shown


def caches_table(report: Mapping[str, Any]) -> Table:
    """A row a size of the exact cache: its hit rate beside the ideal, and CPU a query over that without a cache."""
    shown = _table(
        "The exact cache",
        "MiB",
        "hits",
        "shared",
        "ideal LRU",
        "points",
        "CPU over off",
        "in all",
        "CPU, ms",
        "p50, ms",
    )
    for row in report["caches"]:
        shown.add_row(
            str(row["mib"]),
            *(f"{100 * row[name]:.1f} %" for name in ("hits", "shared", "ideal")),
            f"{row['points']:+.2f}",
            _ranged(row["cpu_over_off"], 3),
            f"{row['cpu_over_off_in_all']:.3f}",
            *(_ranged(row[name], digits) for name, digits in (("cpu_ms_per_query", 2), ("p50_ms", 0))),
        )
    off = report["off"]
    shown.add_row(
        "off", *[""] * 6, *(_ranged(off[name], digits) for name, digits in (("cpu_ms_per_query", 2), ("p50_ms", 0)))
    )
    return shown


def busy_table(report: Mapping[str, Any]) -> Table:
    """Other bounds of the figures: cores that each process kept busy, and how late (p99) the load was sent."""
    shown = _table("Cores busy", "client", "load", "subject", "stubs", "broker", "generator", "machine", "late, ms")
    for client, row in _rows(report):
        shown.add_row(
            client,
            _load(row),
            *(_ranged(row[f"cores_{name}"], 2) for name in ("subject", "stubs", "broker", "load", "machine")),
            # Of a burst everything but the first is late by definition.
            _ranged(row["late_send_p99_ms"], 1) if "rate" in row else "",
        )
    return shown


def windows_table(report: Mapping[str, Any]) -> Table:
    """A row a window of a soak."""
    shown = _table("Latency over time, ms", "from, s", "sent", "answered", "in flight", "p50", "p99")
    for row in report["windows"]:
        latencies = ("" if row[name] is None else f"{row[name]:.0f}" for name in ("p50_ms", "p99_ms"))
        shown.add_row(
            f"{row['from_s']:.0f}", str(row["sent"]), str(row["answered"]), f"{row['in_flight']:.0f}", *latencies
        )
    return shown


def calls_table(report: Mapping[str, Mapping[str, float]], most: int | None = None) -> Table:
    """A row a room or function, a column a load, and a last row with the sums; of many rows the `most` first."""
    table = Table(title="Python calls a query", title_justify="left")
    table.add_column("")
    for load in report:
        table.add_column(load, justify="right")
    rows = sorted({row for each in report.values() for row in each})
    if most is not None:
        rows = sorted(rows, key=lambda row: -sum(each.get(row, 0.0) for each in report.values()))[:most]
    for row in rows:
        table.add_row(row, *(f"{each.get(row, 0.0):.1f}" for each in report.values()))
    table.add_row("all", *(f"{sum(each.values()):.1f}" for each in report.values()))
    return table


def bursts_table(report: Mapping[str, Any]) -> Table:
    """A row a burst of a soak at saturation."""
    shown = _table(f"Bursts, {'steady' if report['steady'] else 'not steady'}", "answered/s", "CPU ms/query")
    for row in report["bursts"]:
        shown.add_row(f"{row['answered_per_s']:.0f}", f"{row['cpu_ms_per_query']:.2f}")
    return shown


def held_table(report: Mapping[str, Any]) -> Table:
    """A row for each thing that a process of a soak holds; of the quarters the medians."""
    shown = _table("Held", "", "first", "last", "most", "2nd q.", "4th q.", "a million queries", "flat")
    for name, row in report["held"].items():
        slope = row["slope_per_million_queries"]
        shown.add_row(
            name,
            *(f"{row[figure]:.1f}" for figure in ("first", "last", "max", "second_quarter", "last_quarter")),
            _interval(slope, 1),
            {True: "yes", False: "no"}.get(row.get("flat"), ""),
        )
    return shown


def profile_tables(threads: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A table a thread: functions by inclusive time beside functions by self time."""
    tables = []
    for thread in threads:
        shown = Table(
            "inclusive %", "function", "self %", "function", title=f"{thread['thread']}, {thread['samples']} samples"
        )
        for inclusive, own in _side_by_side(thread["inclusive"], thread["self"]):
            shown.add_row(*inclusive, *own)
        tables.append(shown)
    return tables


def _table(title: str, *columns: str) -> Table:
    shown = Table(title=title, box=SIMPLE)
    for column in columns:
        shown.add_column(column, no_wrap=True)
    return shown


def _rows(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each load of each client; those of one load follow each other."""
    subjects = report["subjects"]
    loads = {name: [*each["rates"], *([each["burst"]] if each["burst"] else [])] for name, each in subjects.items()}
    return [(name, row) for rows in zip(*loads.values(), strict=True) for name, row in zip(loads, rows, strict=True)]


def _load(row: Mapping[str, Any]) -> str:
    return f"{row['rate']:g}/s" if "rate" in row else "burst"


def _side_by_side(
    left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    def cell(rows: Sequence[Mapping[str, Any]], number: int) -> tuple[str, str]:
        return (f"{rows[number]['percent']:.1f}", rows[number]["function"]) if number < len(rows) else ("", "")

    return [(cell(left, number), cell(right, number)) for number in range(max(len(left), len(right)))]


def _interval(slope: Mapping[str, float], digits: int) -> str:
    estimate, low, high = (f"{slope[name]:+.{digits}f}" for name in ("estimate", "low", "high"))
    return f"{estimate} ({low}..{high})"


def _ranged(figure: Mapping[str, Any], digits: int) -> str:
    shown = f"{figure['median']:.{digits}f}"
    if len(figure["rounds"]) > 1:
        shown += f"\n{figure['min']:.{digits}f}..{figure['max']:.{digits}f}"
    return shown
