"""Nodes to simulate, from words or a file: "8x8", "4x8xa100,cpus=96", "+2xa100", nodes.csv."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dromon.errors import UsageError
from dromon.sched.asks import Gpu
from dromon.sched.events import NodeJoined
from dromon.sim.reading import TraceError, number, open_text, size, whole, word
from dromon.units import parse_size

PLENTY_CPUS = 1_000_000.0  # where nobody says how many: enough for whatever is asked
PLENTY_MEMORY = 1 << 60
MOST = 1_000_000  # GPUs; more is a slip of the keyboard
_NODES = re.compile(r"(\d+)x(\d+)(?:x([A-Za-z][\w.-]*))?$")
_CARDS = re.compile(r"(\d+)x([A-Za-z][\w.-]*)$")
HINT = (
    "Write 8x8 (eight nodes of eight GPUs), 4x8xa100,cpus=96,memory=512GiB, "
    "+2xa100 (two more A100s) or the name of a CSV file."
)


def fleet(words: Sequence[str], base: Sequence[NodeJoined] = ()) -> list[NodeJoined]:
    """The nodes that these words describe. Those that start with + come on top of `base`, and
    `base` is left out when none does."""
    nodes = list(base) if all(word.startswith("+") for word in words) else []
    for text in words:
        add(nodes, text.removeprefix("+"))
    if sum(len(node.gpus) for node in nodes) > MOST:
        raise UsageError(f"--nodes: more than {MOST:,} GPUs", hint=HINT)
    if not nodes:
        raise UsageError("there is no node to simulate on", hint=HINT)
    return nodes


def add(nodes: list[NodeJoined], text: str) -> None:
    shape, _, rest = text.partition(",")
    if found := _NODES.match(shape):
        count, gpus, kind = int(found[1]), int(found[2]), found[3] or ""
        if count * max(1, gpus) > MOST:
            raise UsageError(f"--nodes {text}: more than {MOST:,} GPUs", hint=HINT)
        cpus, memory, labels = amounts(rest, text)
        first = len(nodes)
        nodes += (
            NodeJoined(f"n{i + 1:05d}", cpus, memory, cards(gpus, kind), labels)
            for i in range(first, first + count)
        )
    elif (found := _CARDS.match(shape)) and not rest:
        more_cards(nodes, int(found[1]), found[2])
    elif text.endswith((".csv", ".csv.gz")):
        nodes += read_nodes(text)
    else:
        raise UsageError(f"--nodes {text}: not understood", hint=HINT)


def more_cards(nodes: list[NodeJoined], count: int, kind: str) -> None:
    """New GPUs go into the machine when there is one, else into a node of their own."""
    if count > MOST:
        raise UsageError(f"--nodes {count}x{kind}: more than {MOST:,} GPUs", hint=HINT)
    if len(nodes) == 1:
        node = nodes[0]
        new = tuple(Gpu(f"{kind}-{len(node.gpus) + i}", kind) for i in range(count))
        nodes[0] = replace(node, gpus=node.gpus + new)
    else:
        name = f"n{len(nodes) + 1:05d}"
        nodes.append(NodeJoined(name, PLENTY_CPUS, PLENTY_MEMORY, cards(count, kind)))


def cards(count: int, kind: str) -> tuple[Gpu, ...]:
    return tuple(Gpu(str(i), kind) for i in range(count))


def amounts(text: str, whole_text: str) -> tuple[float, int, frozenset[str]]:
    """What follows the shape: cpus=96,memory=512GiB,label=fast."""
    cpus, memory, labels = PLENTY_CPUS, PLENTY_MEMORY, set[str]()
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        try:
            if key == "cpus":
                cpus = float(value)
            elif key == "memory":
                memory = parse_size(value)
            elif key == "label" and value:
                labels.add(value)
            else:
                raise ValueError(f"{part!r}: only cpus=, memory= and label= may follow")
        except ValueError as error:
            raise UsageError(f"--nodes {whole_text}: {error}", hint=HINT) from None
    return cpus, memory, frozenset(labels)


def read_nodes(path: str) -> list[NodeJoined]:
    """A file of nodes: ours (name,gpus,kind,cpus,memory,count,label), Alibaba's openb
    (sn,cpu_milli,memory_mib,gpu,model) or Helios' (vc,node num: nodes of 8 GPUs)."""
    import csv

    nodes: list[NodeJoined] = []
    with open_text(path) as file:
        reader = csv.DictReader(file)
        columns = {column.strip() for column in reader.fieldnames or ()}
        for row in reader:
            try:
                nodes += row_nodes(row, columns, len(nodes))
            except ValueError as error:
                raise TraceError(f"{path}:{reader.line_num}: {error}", hint=HINT) from None
    if not nodes:
        raise TraceError(f"{path}: there is no node in it", hint=HINT)
    return nodes


def row_nodes(row: dict[str, str], columns: set[str], place: int) -> Iterable[NodeJoined]:
    if {"sn", "cpu_milli", "memory_mib", "gpu"} <= columns:
        gpus = cards(whole(row, "gpu"), word(row, "model"))
        bytes_there = whole(row, "memory_mib") << 20
        yield NodeJoined(word(row, "sn"), number(row, "cpu_milli") / 1000, bytes_there, gpus)
    elif {"vc", "node num"} <= columns:
        vc = word(row, "vc")
        for i in range(whole(row, "node num")):
            yield NodeJoined(f"{vc}-{i}", PLENTY_CPUS, PLENTY_MEMORY, cards(8, ""), frozenset({vc}))
    elif "gpus" in columns:
        count = whole(row, "count", 1)
        memory = size(row, "memory")
        for i in range(count):
            name = word(row, "name", f"n{place + i + 1:05d}")
            yield NodeJoined(
                name if count == 1 else f"{name}-{i + 1}",
                number(row, "cpus", PLENTY_CPUS),
                PLENTY_MEMORY if memory is None else memory,
                cards(whole(row, "gpus"), word(row, "kind")),
                frozenset(filter(None, word(row, "label").split("|"))),
            )
    else:
        raise ValueError("columns of nodes are name, gpus, kind, cpus, memory, count, label")
