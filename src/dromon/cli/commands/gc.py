"""`dromon gc`: give disk space back."""

from __future__ import annotations

import sys

from dromon.cli.parser import CHOSEN, add_on, add_output, duration, where
from dromon.units import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Remove snapshots, environments and other stored things no job needs any more. With "
        "--older-than, jobs that ended longer ago are removed first, with their logs and outputs.",
        examples="""
dromon gc --dry-run
dromon gc --older-than 30d
dromon gc --on prod
""",
    )
    parser.add_argument("--older-than", type=duration, metavar="TIME", help="30d, 12h")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, remove nothing")
    add_on(parser, CHOSEN)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    found = api.gc(older_than=args.older_than, dry_run=args.dry_run, **where(args))
    if args.output:
        from dromon.cli.plain import print_json

        print_json(found)
        return 0
    removed, freed = found.get("removed") or (), found.get("freed") or 0
    jobs = f"{len(removed)} job{'' if len(removed) == 1 else 's'}"
    names = f": {', '.join(removed)}" if removed else ""
    sys.stdout.write(f"{'would remove' if args.dry_run else 'removed'} {jobs}{names}\n")
    if not args.dry_run:
        sys.stdout.write(f"gave back {format_size(freed)}\n")
    return 0
