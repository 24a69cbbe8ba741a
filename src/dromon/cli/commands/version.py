"""`dromon version`."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about("Print Dromon's version.")


def execute(args: Namespace, api: Api) -> int:
    from dromon import __version__

    sys.stdout.write(f"dromon {__version__}\n")
    return 0
