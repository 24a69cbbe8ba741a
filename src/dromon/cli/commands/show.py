"""`dromon show`: everything that is known about one job, in sections."""

from __future__ import annotations

import sys

from dromon.cli.console import Paint, wants_colour, width_of
from dromon.cli.parser import add_on, add_output, add_ref, where
from dromon.cli.table import Column, render
from dromon.cli.timeline import exit_words, moment, told
from dromon.cli.words import STATE_COLOURS, amounts, short_verdict
from dromon.units import format_duration, format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser

    Data = dict[str, Any]


def configure(parser: Parser) -> None:
    parser.about(
        "Show everything about a job: how it ended, its timeline, its members, metrics and "
        "outputs, the code and the environment it ran with, and the exact request.",
        examples="""
dromon show              the last job
dromon show 41 -o json | jq .request
""",
    )
    add_ref(parser, nargs="?")
    add_on(parser)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    found = api.show(args.ref, **where(args))
    from dromon.cli.plain import plain, print_json

    if args.output:
        print_json(found)
        return 0
    page = Page(plain(found), width_of(1), Paint(wants_colour(1)))
    sys.stdout.write(page.text())
    return 0


class Page:
    """The sections, each from its own part of the data; a part that is missing is left out."""

    def __init__(self, data: Data, width: int | None, paint: Paint) -> None:
        self.data = data
        self.status: Data = data.get("status") or {}
        self.width = width
        self.paint = paint

    def text(self) -> str:
        parts = ["".join(line + "\n" for line in self.head())]
        sections = (
            ("timeline", self.timeline), ("members", self.members), ("metrics", self.metrics),
            ("outputs", self.outputs), ("code", self.code), ("environment", self.environment),
            ("request", self.request),
        )  # fmt: skip
        for title, section in sections:
            body = "".join(line + "\n" for line in section())
            if body:
                parts.append(self.paint(title, "bold") + "\n" + body)
        return "\n".join(parts)

    def head(self) -> Iterator[str]:
        status, paint = self.status, self.paint
        state = str(status.get("state", ""))
        on = status.get("on") or "local"
        number = f"{status.get('number', '')} " if on == "local" else ""
        name = f"job {number}{status.get('id', '')}{'' if on == 'local' else f' on {on}'}"
        yield paint(name, "bold") + "  " + paint(state, STATE_COLOURS.get(state, ""))
        verdict = status.get("verdict") or {}
        said = short_verdict(verdict)
        rows: list[tuple[str, Any]] = [("verdict", said)]
        member = verdict.get("member")
        if member:
            rank = verdict.get("rank")
            rows.append(("member", f"{member}" + (f", rank {rank}" if rank is not None else "")))
        rows += [
            ("hint", verdict.get("hint")),
            ("queue", queue_words(status)),
            ("resources", resource_words(status.get("resources") or {})),
            ("submitted", moment(status.get("submitted"))),
            ("started", moment(status.get("started"))),
            ("ended", self.ended()),
            ("attempt", status.get("attempt") if status.get("attempt", 0) > 1 else None),
            ("user", status.get("user")),
            ("application", self.data.get("application")),
            *self.links(),
            ("record", self.data.get("record")),
            ("files", self.data.get("work")),
        ]
        for key, value in rows:
            if value not in (None, ""):
                yield f"  {key:<12}{value}"
        for line in verdict.get("last_lines") or () if said else ():
            yield self.paint("  | ", "dim") + line

    def links(self) -> Iterator[tuple[str, str]]:
        """The engine's own pages; only the first line says what they are."""
        for number, (title, url) in enumerate((self.data.get("links") or {}).items()):
            yield "" if number else "pages", f"{title}: {url}"

    def ended(self) -> str:
        started, ended = self.status.get("started"), self.status.get("ended")
        if ended is None:
            return ""
        took = f" ({format_duration(ended - started)} after its start)" if started else ""
        return moment(ended) + took

    def timeline(self) -> Iterator[str]:
        for line in told(self.data.get("timeline") or ()):
            yield f"  {line}"

    def members(self) -> Iterator[str]:
        members = self.data.get("members") or self.status.get("members") or ()
        if not members:
            return
        columns = [
            Column("MEMBER"), Column("RUN", right=True), Column("RANK", right=True),
            Column("STATE"), Column("EXIT"), Column("PEAK MEMORY", right=True, optional=True),
            Column("GPUS", least=4, optional=True), Column("HOST", least=8, optional=True),
        ]  # fmt: skip
        rows = []
        for member in members:
            end = member.get("exit") or {}
            memory = end.get("peak_memory") or member.get("memory")
            rank = member.get("rank")
            rows.append(
                [
                    str(member.get("member", "")),
                    str(member.get("run", "")),
                    "-" if rank is None else str(rank),
                    str(member.get("state", "")),
                    exit_words(end) if end else "-",
                    format_size(memory) if memory else "-",
                    ",".join(map(str, member.get("gpus") or ())) or "-",
                    str(member.get("host") or "-"),
                ]
            )
        width = None if self.width is None else self.width - 2
        for line in render(columns, rows, width, self.paint).splitlines():
            yield f"  {line}"

    def metrics(self) -> Iterator[str]:
        metrics = self.data.get("metrics") or {}
        if not metrics:
            return
        columns = [Column("NAME"), *(Column(t, right=True) for t in ("LAST", "MIN", "MAX", "N"))]
        rows = [
            [name, *(number(entry.get(key)) for key in ("last", "min", "max", "count"))]
            for name, entry in metrics.items()
        ]
        for line in render(columns, rows, None, self.paint).splitlines():
            yield f"  {line}"

    def outputs(self) -> Iterator[str]:
        for entry in self.data.get("outputs") or ():
            size = entry.get("size")
            kept = "" if entry.get("kept", True) else "  not kept"
            digest = short_digest(entry.get("digest"))
            words = [entry.get("path", ""), format_size(size) if size is not None else "", digest]
            yield "  " + "  ".join(word for word in words if word) + kept

    def code(self) -> Iterator[str]:
        facts = self.data.get("facts") or {}
        git = facts.get("git") or {}
        code = self.data.get("code") or {}
        if code:
            size = f", {format_size(code['size'])}" if code.get("size") else ""
            yield f"  {'snapshot':<12}{short_digest(code.get('digest'))}{size}"
        if git:
            dirty = " with uncommitted changes" if git.get("dirty") else ""
            branch = f" on {git['branch']}" if git.get("branch") else ""
            yield f"  {'git':<12}{str(git.get('commit', ''))[:12]}{branch}{dirty}"
        for key, value in facts.items():
            if key in ("cwd", "file", "host") and value:
                yield f"  {key:<12}{said_value(value)}"

    def environment(self) -> Iterator[str]:
        found = dict(self.data.get("environment") or {})
        lock = found.pop("lock", None) or {}
        asked = found.pop("request", None) or {}
        if lock:
            found["version"] = lock.get("python")
        for key in ("kind", "python", "version", "digest", "image"):
            if found.get(key):
                text = short_digest(found[key]) if key == "digest" else found[key]
                yield f"  {key:<12}{text}"
        for key, value in asked.items():
            if value:
                yield f"  {key:<12}{said_value(value)}"
        for number, line in enumerate(str(lock.get("text", "")).splitlines()):
            yield f"  {'' if number else 'lock':<12}{line}"

    def request(self) -> Iterator[str]:
        job = self.data.get("job") or self.data.get("request") or {}
        yield from outline(job, "  ")


def outline(data: Any, indent: str) -> Iterator[str]:
    """Nested data as lines, close to YAML and without importing it."""
    for key, value in data.items():
        if value in (None, "", {}, []):
            continue
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from outline(value, indent + "  ")
        else:
            yield f"{indent}{key}: {said_value(value)}"


def said_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{k} {said_value(v)}" for k, v in value.items() if v not in (None, ""))
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        if any(isinstance(item, str) and " " in item for item in value):
            import shlex

            return shlex.join(map(str, value))
        return " ".join(map(str, value))
    import json

    return json.dumps(value, ensure_ascii=False)


def queue_words(status: Data) -> str:
    queue, priority = status.get("queue") or "", status.get("priority")
    return f"{queue}, priority {priority}" if priority else str(queue)


def resource_words(resources: Data) -> str:
    return ", ".join(amounts(resources))


def number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else str(value)


def short_digest(digest: Any) -> str:
    text = str(digest or "")
    head, colon, tail = text.rpartition(":")
    return f"{head}{colon}{tail[:16]}"
