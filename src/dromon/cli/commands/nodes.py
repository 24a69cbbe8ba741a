"""`dromon nodes`: machines, what is free on them, and who holds each GPU."""

from __future__ import annotations

import sys

from dromon.cli.console import Paint, wants_colour, width_of
from dromon.cli.parser import CHOSEN, add_on, add_output, where
from dromon.cli.table import Column, render
from dromon.cli.words import amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.cli.table import Cell
    from dromon.engines.base import Node

COUNTED = ("cpus", "memory", "gpus")


def configure(parser: Parser) -> None:
    parser.about(
        "Show what the engine has: cores, memory and GPUs, how much of each is free, who holds "
        "which GPU, and what the engine cannot enforce here.",
        examples="""
dromon nodes
dromon nodes --on yarn
dromon nodes -o json
""",
    )
    add_on(parser, CHOSEN)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    nodes = api.nodes(**where(args))
    if args.output:
        from dromon.cli.plain import print_json

        print_json(nodes)
        return 0
    paint, width = Paint(wants_colour(1)), width_of(1)
    columns = [
        Column("NODE"), Column("CPUS FREE", right=True), Column("MEMORY FREE", right=True),
        Column("GPUS FREE", right=True), Column("LABELS", least=8, optional=True),
    ]  # fmt: skip
    rows = [
        [node.name, *(share(node, key) for key in COUNTED), ",".join(node.labels)] for node in nodes
    ]
    sys.stdout.write(render(columns, rows, width, paint))
    if any(node.gpus for node in nodes):
        sys.stdout.write("\n" + gpu_table(nodes, width, paint))
    for node in nodes:
        for note in node.notes:
            sys.stdout.write(paint(f"note: {note}", "dim") + "\n")
    return 0


def share(node: Node, key: str) -> str:
    total = node.total.get(key, 0)
    if not total:
        return "-"
    return f"{amount(key, node.free.get(key, 0))} of {amount(key, total)}"


def gpu_table(nodes: Sequence[Node], width: int | None, paint: Paint) -> str:
    columns = [
        Column("NODE", optional=True), Column("GPU", right=True), Column("MODEL", least=10),
        Column("MEMORY", right=True), Column("HELD BY", least=10),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for node in nodes:
        for place, gpu in enumerate(node.gpus):
            memory = gpu.get("memory")
            holder = gpu.get("holder") or gpu.get("job") or ""
            rows.append(
                [
                    node.name,
                    str(gpu.get("index", place)),
                    str(gpu.get("name") or gpu.get("model") or "-"),
                    amount("memory", memory) if memory else "-",
                    (str(holder), "yellow") if holder else ("free", "green"),
                ]
            )
    return render(columns, rows, width, paint)
