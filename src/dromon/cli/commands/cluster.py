"""`dromon cluster`: a cluster's own configuration, made from a site file or checked."""

from __future__ import annotations

import os
import sys

from dromon.cli.console import Console, Paint, wants_colour
from dromon.cli.parser import complete
from dromon.errors import JobFileError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser

ACTIONS, SYSTEMS = ("render", "lint"), ("volcano",)
SITE = "site.yaml"


def configure(parser: Parser) -> None:
    parser.about(
        "render: from a site file, which names queues, what they deserve, limits and priorities, "
        "print what Volcano takes: Queues, PriorityClasses and the scheduler's configuration, "
        "sorted and always the same, fit for a repository. What Volcano cannot hold is said.\n\n"
        "lint: read a volcano-scheduler.conf, plain or in its ConfigMap, and Queues and "
        "PriorityClasses with it, and find what makes preemption or reclaim do nothing without a "
        "word, evict the wrong ones, or evict for ever. Asks no cluster.",
        examples="""
dromon cluster render volcano site.yaml | kubectl apply -f -
dromon cluster render volcano site.yaml -o clusters/prod
dromon cluster lint volcano volcano-scheduler.conf
kubectl -n volcano-system get configmap volcano-scheduler-configmap -o yaml > now.yaml
kubectl get queues,priorityclasses -o yaml > objects.yaml
dromon cluster lint volcano now.yaml objects.yaml
""",
        codes="0   done, or nothing but warnings\n1   lint found errors\n64  a file has problems",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("system", choices=SYSTEMS, metavar="SYSTEM", help=", ".join(SYSTEMS))
    files = parser.add_argument(
        "files", metavar="FILE", nargs="*", help=f"the site file (default: {SITE}); what to check"
    )
    complete(files, "file")
    parser.add_argument(
        "-o",
        "--output",
        metavar="WHAT",
        help="render: yaml (default), or a directory to write to; lint: json",
    )


def execute(args: Namespace, api: Api) -> int:
    try:
        return render(args) if args.action == "render" else lint(args)
    except JobFileError as error:
        console = Console()
        for problem in error.problems:
            console.line(str(problem))
        count = len(error.problems)
        console.error(f"{count} problem{'s' if count != 1 else ''} in {' '.join(args.files)}")
        return error.exit_code


def render(args: Namespace) -> int:
    if len(args.files) > 1:
        raise UsageError("cluster render: one site file, not several")
    args.files = args.files or [SITE]
    text = contents(args.files[0])
    from dromon.clusters import volcano
    from dromon.clusters.writing import to_yaml
    from dromon.site.file import load_site

    site = load_site(text, args.files[0], volcano.rules)
    files = {name: to_yaml(objects) for name, objects in volcano.files(site).items() if objects}
    console = Console()
    if args.output in (None, "yaml"):
        sys.stdout.write("".join(files.values()))
    else:
        write(args.output, files)
        console.say(f"wrote {', '.join(files)} to {args.output}")
    for note in volcano.notes(site):
        console.line(f"note: {note}")
    return 0


def lint(args: Namespace) -> int:
    if args.output not in (None, "json"):
        raise UsageError(f"cluster lint: -o {args.output}: expected json")
    if not args.files:
        raise UsageError(
            "cluster lint: which files?",
            hint="A volcano-scheduler.conf, its ConfigMap, Queues, PriorityClasses.",
        )
    texts = [(name, contents(name)) for name in args.files]
    from dromon.clusters.findings import ERROR
    from dromon.clusters.lint import lint_volcano

    findings = lint_volcano(texts)
    errors = sum(1 for finding in findings if finding.severity == ERROR)
    if args.output:
        from dromon.cli.plain import print_json

        print_json([finding.to_json() for finding in findings])
    else:
        paint = Paint(wants_colour(1))
        for finding in findings:
            word = f" {finding.severity}: "
            colour = "red" if finding.severity == ERROR else "yellow"
            sys.stdout.write(str(finding).replace(word, paint(word, colour), 1) + "\n")
        others = len(findings) - errors
        said = f"{errors} error{'s' * (errors != 1)}, {others} warning{'s' * (others != 1)}"
        Console().say(said if findings else f"{' '.join(args.files)}: nothing found")
    return 1 if errors else 0


def contents(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(2 << 20)  # more is refused anyway
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None


def write(directory: str, files: dict[str, str]) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
        for name, text in files.items():
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror}") from None
