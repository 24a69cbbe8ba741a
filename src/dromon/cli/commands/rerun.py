"""`dromon rerun`: the same job again, as a new one."""

from __future__ import annotations

from dromon.cli.commands.run import add_detach, proceed, submitted
from dromon.cli.console import Console
from dromon.cli.parser import add_on, add_ref, where
from dromon.cli.target import add_secrets_file, supplied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Run a job again from its record: the code, the environment and the configuration it had, "
        "not what lies in the folder today. Values can be changed on the way.",
        examples="""
dromon rerun 41
dromon rerun @last config.training.lr=1e-4
dromon rerun -d unet3d && dromon diff @last~1 @last
""",
    )
    add_ref(parser)
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="values to change")
    add_secrets_file(parser.add_argument)
    add_on(parser, "where the job is, and will be again (default: it is looked for)")
    add_detach(parser)


def execute(args: Namespace, api: Api) -> int:
    console = Console()
    call = {"overrides": args.overrides, **supplied(args), **where(args)}
    taken = submitted(console, lambda progress: api.rerun(args.ref, progress=progress, **call))
    return proceed(api, taken, console, detach=args.detach)
