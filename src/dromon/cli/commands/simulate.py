"""`dromon simulate`: what the scheduler would have made of a trace, on nodes of your choice."""

from __future__ import annotations

import sys
import time

from dromon.cli.console import Console, Paint, wants_colour, width_of
from dromon.cli.parser import complete, duration, whole
from dromon.cli.table import Column, render
from dromon.errors import UsageError
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.sched.events import NodeJoined
    from dromon.sched.rules import Rules
    from dromon.sim.measures import Summary
    from dromon.sim.trace import Trace

FILES = (".html", ".svg", ".csv", ".json")


def configure(parser: Parser) -> None:
    parser.about(
        "Run a trace of jobs through the same scheduler that this machine's daemon uses, on nodes "
        "you do not have, and say how long jobs took and waited, how full the nodes were and how "
        "fair it was. The same input gives the same output, to the byte.\n\n"
        "A trace is a CSV file, also gzipped: Dromon's own (columns submit and duration, in "
        "seconds; as wanted id, gpus, members, cpus, memory, kind, label, user, queue, priority, "
        "preemptible, max_duration, stop_grace), or one of Philly (timestamp, duration, num_gpus, "
        "cluster), Alibaba's openb or Muri, which are known by their columns. --history takes "
        "what this machine has run instead.\n\n"
        "Nodes: 8x8 is eight nodes of eight GPUs; 4x8xa100,cpus=96,memory=512GiB says more; "
        "+2xa100 adds two GPUs to what there is; a CSV file lists them (name, gpus, kind, cpus, "
        "memory, count, label).",
        examples="""
dromon simulate philly.csv.gz --nodes 352x8
dromon simulate trace.csv --nodes 8x8 --compare fifo,drf,srtf
dromon simulate trace.csv --nodes nodes.csv --queues site.yaml -o report.html
dromon simulate --history --nodes +2xa100
""",
    )
    complete(
        parser.add_argument("trace", nargs="?", metavar="TRACE", help="the trace file"), "file"
    )
    parser.add_argument(
        "--history", action="store_true", help="what this machine has run, instead of a trace"
    )
    parser.add_argument(
        "--nodes", action="append", default=[], metavar="NODES",
        help="nodes to run it on; may be given several times",
    )  # fmt: skip
    queues = parser.add_argument(
        "--queues", metavar="SITE.yaml", help="a site file: queues, priorities, users"
    )
    complete(queues, "file")
    parser.add_argument(
        "--policy", metavar="NAME", help="fair, drf, fifo, sjf, srtf, srsf or las (tiresias)"
    )
    parser.add_argument("--compare", metavar="NAME,NAME", help="several policies side by side")
    parser.add_argument(
        "--placement", metavar="NAME",
        help="bestfit, fgd, firstfit, tightfit, packing, clustering, dotprod or random",
    )  # fmt: skip
    parser.add_argument(
        "--start-up", type=duration, default=0.0, metavar="TIME",
        help="what every start costs, also one after a preemption (default: nothing)",
    )  # fmt: skip
    parser.add_argument(
        "--patience", type=duration, metavar="TIME",
        help="a job that has not started after so long leaves; 0: at once",
    )  # fmt: skip
    parser.add_argument(
        "--blind", action="store_true",
        help="tell the scheduler only the durations that the trace's owners said (max_duration)",
    )  # fmt: skip
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="settles ties")
    output = parser.add_argument(
        "-o", "--output", metavar="WHAT", help="json, csv, or FILE.html, .svg, .csv or .json"
    )
    complete(output, "file")


def execute(args: Namespace, api: Api) -> int:
    from dromon.sim.costs import StartUp
    from dromon.sim.study import compare, policy_name

    wanted = args.output or ""
    check_output(wanted)
    rules = rules_from(args.queues)
    named = args.compare.split(",") if args.compare else [args.policy or default_policy(rules)]
    policies = list(dict.fromkeys(policy_name(name.strip()) for name in named if name.strip()))
    trace, nodes = what_and_where(args, api)
    shown = Progress(len(trace.jobs), policies)
    try:
        summaries = compare(
            trace, nodes, rules, policies=policies, placement=args.placement,
            costs=StartUp(args.start_up), blind=args.blind, patience=args.patience,
            seed=args.seed, on_progress=shown if shown.is_on else None,
        )  # fmt: skip
    finally:
        shown.clear()
    present(wanted, trace, nodes, summaries)
    return 0


def check_output(wanted: str) -> None:
    """Before hours of simulation, not after."""
    import os

    if not wanted or wanted in ("json", "csv"):
        return
    if not wanted.endswith(FILES):
        raise UsageError(
            f"simulate: -o {wanted}: expected json, csv, or a file ending in {', '.join(FILES)}"
        )
    folder = os.path.dirname(wanted) or "."
    if not os.access(folder, os.W_OK) or os.path.isdir(wanted):
        raise UsageError(f"cannot write {wanted}")


def what_and_where(args: Namespace, api: Api) -> tuple[Trace, Sequence[NodeJoined]]:
    from dromon.sim.fleet import fleet
    from dromon.sim.history import machine_of, trace_of
    from dromon.sim.reading import read_trace

    if bool(args.trace) == args.history:
        raise UsageError(
            "simulate: give a trace file, or --history; one of them",
            hint="`dromon simulate --help` shows both.",
        )
    if args.history:
        base = machine_of(api.nodes())
        nodes = fleet(args.nodes, base) if args.nodes else base
        return trace_of(api.machine().history()), nodes
    if not args.nodes:
        raise UsageError(
            "simulate: on which nodes? --nodes is missing",
            hint="--nodes 8x8 is eight nodes of eight GPUs each.",
        )
    nodes = fleet(args.nodes)
    return read_trace(args.trace), nodes


def rules_from(path: str | None) -> Rules | None:
    if path is None:
        return None
    from dromon.site.file import load_site
    from dromon.site.rules import rules_of

    try:
        with open(path, "rb") as file:
            text = file.read(2 << 20)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return rules_of(load_site(text, path))


def default_policy(rules: Rules | None) -> str:
    return rules.policy if rules else "fair"


class Progress:
    """A bar with the time left, on a terminal."""

    def __init__(self, jobs: int, policies: Sequence[str]) -> None:
        self._console = Console()
        self._jobs = max(1, jobs)
        self._policies = list(policies)
        self._began = time.monotonic()
        self._shown = 0.0
        self.is_on = self._console.is_terminal

    def __call__(self, policy: str, over: int) -> None:
        now = time.monotonic()
        if now - self._shown < 0.1:
            return
        self._shown = now
        rounds = len(self._policies)
        part = (self._policies.index(policy) + over / self._jobs) / rounds
        bar = "█" * round(24 * part) + "░" * (24 - round(24 * part))
        spent = now - self._began
        left = f", {format_duration(spent / part - spent)} left" if part > 0.01 else ""
        name = f" {policy}" if rounds > 1 else ""
        self._console.passing(f"dromon: {bar} {part:4.0%}{name}{left}")

    def clear(self) -> None:
        self._console.clear()


def present(
    wanted: str, trace: Trace, nodes: Sequence[NodeJoined], summaries: Sequence[Summary]
) -> None:
    if not wanted:
        sys.stdout.write(table(trace, nodes, summaries, width_of(1), Paint(wants_colour(1))))
        return
    text = document(wanted.rpartition(".")[2], trace, nodes, summaries)
    if wanted in ("json", "csv"):
        sys.stdout.write(text)
        return
    try:
        with open(wanted, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {wanted}: {error.strerror}") from None
    Console().say(f"wrote {wanted}")


def document(
    form: str, trace: Trace, nodes: Sequence[NodeJoined], summaries: Sequence[Summary]
) -> str:
    from dromon.sim.page import page, picture
    from dromon.sim.rows import csv_text, values

    if form == "csv":
        return csv_text(summaries)
    if form == "svg":
        return picture(summaries)
    if form == "html":
        return page(f"Simulation of {trace.name}", about(trace, nodes), summaries)
    import json

    from dromon.cli.plain import plain

    found = [
        {
            **values(summary), "users": rounded(plain(summary.users)),
            "queues": rounded(plain(summary.queues)), "use": summary.use, "waits": summary.waits,
        }
        for summary in summaries
    ]  # fmt: skip
    data = {"trace": trace.name, "format": trace.format, "nodes": len(nodes), "runs": found}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def rounded(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        {key: round(value, 6) if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]


def about(trace: Trace, nodes: Sequence[NodeJoined]) -> str:
    gpus = sum(len(node.gpus) for node in nodes)
    span = format_duration(trace.jobs[-1].submit)
    return (
        f"{len(trace.jobs):,} jobs submitted within {span} ({trace.format}), "
        f"on {len(nodes):,} node{'' if len(nodes) == 1 else 's'} "
        f"with {gpus:,} GPU{'' if gpus == 1 else 's'}"
    )


def table(
    trace: Trace,
    nodes: Sequence[NodeJoined],
    summaries: Sequence[Summary],
    width: int | None,
    paint: Paint,
) -> str:
    from dromon.sim.rows import HEADINGS, cells

    columns = [Column("")] + [Column(summary.policy.upper(), right=True) for summary in summaries]
    columns_of = [cells(summary) for summary in summaries]
    rows = [
        [heading, *(column[at] for column in columns_of)]
        for at, heading in enumerate(HEADINGS)
        if at
    ]
    text = paint(about(trace, nodes), "dim") + "\n\n" + render(columns, rows, width, paint)
    return text + "".join(remarks(summary) for summary in summaries)


def remarks(summary: Summary) -> str:
    """What a reader of the figures must know."""
    said = []
    if summary.refused:
        said.append(f"{summary.refused} can never run there: {'; '.join(summary.reasons)}")
    if summary.dropped:
        said.append(f"{summary.dropped} left before they started")
    if summary.unfinished:
        said.append(f"{summary.unfinished} never ended")
    return "".join(f"note: {summary.policy}: {each}\n" for each in said)
