"""`dromon import`: a job file of one that was written for another tool."""

from __future__ import annotations

import sys

from dromon.cli.console import Console
from dromon.cli.parser import complete
from dromon.errors import JobFileError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser

TOOLS = ("volcano",)


def configure(parser: Parser) -> None:
    parser.about(
        "Make a job file of a Volcano Job, or of a plain Job of Kubernetes: YAML or JSON, alone or "
        "among other objects. What a job file has no word for goes under `kubernetes:` as it was; "
        "what cannot be carried over is said, with its place, and stands in a comment on top.",
        examples="""
dromon import volcano vcjob.yaml > job.yaml
dromon import volcano vcjob.yaml -o job.yaml && dromon plan job.yaml --on kubernetes
""",
        codes="0   done\n1   done, but something must be written by hand before it runs\n"
        "64  there is no job in it, or it cannot be read",
    )
    parser.add_argument("tool", choices=TOOLS, metavar="TOOL", help=", ".join(TOOLS))
    complete(parser.add_argument("file", metavar="FILE", help="the file; - is stdin"), "file")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")


def execute(args: Namespace, api: Api) -> int:
    console = Console()
    text = contents(args.file)
    from dromon.compat.volcano import import_job

    name = "stdin" if args.file == "-" else args.file
    try:
        made = import_job(text, name)
    except JobFileError as error:
        for problem in error.problems:
            console.line(str(problem))
        console.error(f"{name} cannot be imported")
        return error.exit_code
    if args.output:
        write(args.output, made.text)
    else:
        sys.stdout.write(made.text)
    for note in made.notes:
        console.line(str(note))
    for problem in made.problems:
        where = args.output or "the job file"
        console.line(f"{where}: {problem.path}: {problem.text}; {problem.suggestion}".rstrip("; "))
    if args.output:
        console.say(f"wrote {args.output}")
        console.line(f"next: dromon check {args.output} · dromon plan {args.output}")
    return 1 if made.problems else 0


def contents(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(2 << 20)
    try:
        with open(name, "rb") as file:
            return file.read(2 << 20)  # more is refused anyway
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None


def write(name: str, text: str) -> None:
    try:
        with open(name, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{name} exists already", hint="Choose another name: `-o other.yaml`."
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror}") from None
