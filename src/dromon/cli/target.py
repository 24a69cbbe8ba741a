"""What `run` and `plan` are asked to run: a job file, a script or a command, and the flags on top.

Turns words into the arguments of `api.start`. What the job file means is `spec`'s.
"""

from __future__ import annotations

import os

from dromon.cli.parser import complete, whole
from dromon.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dromon.cli.parser import Namespace, Parser

JOB_FILES = (".yaml", ".yml")
FRAMEWORKS = ("none", "torch", "tensorflow", "mxnet", "jax", "mpi", "horovod")


def add_target(parser: Parser) -> None:
    parser.takes_rest = True
    parser.usage = f"{parser.prog} [OPTIONS] [FILE] [KEY=VALUE ...] [-- ARGUMENTS]"
    words = parser.add_argument(
        "words",
        metavar="FILE",
        nargs="*",
        help="a job file (.yaml), or a script (.py, .sh, or executable); after it, values of the "
        "job file to change: a.b.c=value",
    )
    complete(words, "file")
    add = parser.add_argument_group("the job").add_argument
    add("--name", help="the job's name")
    add("--framework", choices=FRAMEWORKS, metavar="NAME", help=", ".join(FRAMEWORKS))
    add("-n", "--replicas", type=whole, metavar="N", help="how many members the gang has")
    add("--env", action="append", default=[], metavar="K[=V]", help="a variable; K alone: yours")
    add("--secret", action="append", default=[], metavar="NAME", help="a variable of yours, kept "
        "out of every file and log")  # fmt: skip
    add_secrets_file(add)
    add = parser.add_argument_group("each member gets").add_argument
    add("--gpus", metavar="N", help="2, or a model: a100:2")
    add("--cpus", metavar="N", help="cores")
    add("--memory", metavar="SIZE", help="16GiB")
    add = parser.add_argument_group("where and when").add_argument
    add("--queue", metavar="NAME", help="the queue it waits in")
    add("--priority", metavar="P", help="a class or a number; higher goes first")
    add("--max-duration", metavar="TIME", help="8h; then it is stopped")


def add_secrets_file(add: Callable[..., Any]) -> None:
    complete(
        add("--secrets-file", metavar="FILE", help="NAME=VALUE lines for the secrets the job asks "
            "for; only you may be able to read it (mode 0600)"),
        "file",
    )  # fmt: skip


def supplied(args: Namespace) -> dict[str, Any]:
    """What --secrets-file gives, as an argument of the call; nothing without it."""
    if args.secrets_file is None:
        return {}
    from dromon.cli import secretsfile

    return {"supplied": secretsfile.read(args.secrets_file)}


def call_arguments(args: Namespace) -> dict[str, Any]:
    """`file` or `command`, `overrides` and `options`, as `api.start` takes them."""
    words, rest = list(args.words), args.rest
    target = words.pop(0) if words and "=" not in words[0] else None
    options = options_of(args)
    call: dict[str, Any] = {"overrides": words, "options": options, **supplied(args)}
    if target is None:
        if not rest:
            raise UsageError(
                "nothing to run",
                hint="`dromon run job.yaml`, `dromon run train.py` or `dromon run -- COMMAND`.",
            )
        call["command"] = rest
        options.setdefault("name", name_of(rest))
    elif target.endswith(JOB_FILES):
        if rest is not None:
            raise UsageError(
                "arguments after -- belong to a script, and a job file has its own command",
                hint="Change values of the file with a.b.c=value.",
            )
        call["file"] = target
    else:
        call["command"] = script_command(target, rest or [], options)
        options.setdefault("name", label(os.path.basename(target).rpartition(".")[0] or target))
    check_overrides(words, target, call)
    return call


def check_overrides(words: list[str], target: str | None, call: dict[str, Any]) -> None:
    """Only KEY=VALUE may follow the file; anything else was meant for the script."""
    stray = next((word for word in words if "=" not in word), None)
    if stray is None:
        return
    if target is None or "file" in call:
        raise UsageError(f"{stray!r} is not KEY=VALUE")
    raise UsageError(
        f"{stray!r} is not KEY=VALUE",
        hint=f"The script's own arguments come after --: `dromon run {target} -- {stray}`.",
    )


def options_of(args: Namespace) -> dict[str, Any]:
    """The flags, in the job file's shape."""
    options: dict[str, Any] = {}
    for key in ("name", "framework", "replicas", "queue", "priority", "max_duration"):
        value = getattr(args, key)
        if value is not None:
            options[key] = value
    if "priority" in options and options["priority"].lstrip("+-").isdecimal():
        options["priority"] = int(options["priority"])
    resources = {k: getattr(args, k) for k in ("gpus", "cpus", "memory") if getattr(args, k)}
    for key in ("gpus", "cpus"):
        if key in resources:
            resources[key] = counted(f"--{key}", resources[key])
    if resources:
        options["resources"] = resources
    if args.env:
        options["env"] = dict(variable(text) for text in args.env)
    if args.secret:
        options["secrets"] = list(args.secret)
    return options


def counted(flag: str, text: str) -> int | float | dict[str, int]:
    """ "2", "0.5", or "a100:2" for a model of GPU."""
    kind, colon, number = text.rpartition(":")
    try:
        value = float(number)
        if value < 0 or value != value or value == float("inf"):
            raise ValueError
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a number") from None
    if colon:
        return {kind: int(value)}
    return int(value) if value.is_integer() else value


def variable(text: str) -> tuple[str, str]:
    """ "K=V", or "K" for the value it has here."""
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"--env {name}: it is not set here", hint=f"Give it: --env {name}=VALUE")
    return name, os.environ[name]


def script_command(path: str, rest: list[str], options: dict[str, Any]) -> list[str]:
    """The argv that runs a script. One outside this folder brings its own folder as workdir."""
    if not os.path.isfile(path):
        raise missing(path)
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir + os.sep):
        options["workdir"] = os.path.dirname(os.path.abspath(path))
        relative = os.path.basename(path)
    if path.endswith(".py"):
        return ["python", relative, *rest]
    if path.endswith(".sh"):
        return ["bash", relative, *rest]
    if os.access(path, os.X_OK):
        return [os.path.join(os.curdir, relative), *rest]
    raise UsageError(
        f"{path} is neither a job file (.yaml), nor a script (.py, .sh), nor executable",
        hint=f"`chmod +x {path}`, or `dromon run -- COMMAND {path}`.",
    )


def missing(path: str) -> UsageError:
    if os.path.isdir(path):
        return UsageError(f"{path} is a folder", hint="Name the job file or the script in it.")
    if os.sep not in path and not path.endswith((".py", ".sh")):
        return UsageError(
            f"there is no file {path}", hint=f"To run a command: `dromon run -- {path} …`."
        )
    return UsageError(f"there is no file {path}", hint=near_file(path))


def near_file(path: str) -> str:
    import difflib

    folder = os.path.dirname(path)
    try:
        names = os.listdir(folder or os.curdir)
    except OSError:
        return f"There is no folder {folder} either."
    near = difflib.get_close_matches(os.path.basename(path), names, n=1)
    return (
        f"Did you mean {os.path.join(folder, near[0])}?"
        if near
        else f"Looked in {os.path.abspath(folder)}."
    )


def name_of(argv: list[str]) -> str:
    """A name for a bare command: the script's where an interpreter runs one, else the program's."""
    program = os.path.basename(argv[0])
    if program.startswith("python") or program in ("bash", "sh", "torchrun", "uv"):
        for i, word in enumerate(argv[1:], 1):
            if word.endswith((".py", ".sh")):
                return label(os.path.basename(word).rpartition(".")[0])
            if word == "-m" and len(argv) > i + 1:
                return label(argv[i + 1].rpartition(".")[2])
    return label(program)


def label(text: str) -> str:
    """`text` as a job's name: lower case, digits and dashes, starting with a letter."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower()).strip("-")
    kept = "-".join(part for part in kept.split("-") if part)[:30].rstrip("-")
    return kept if kept and kept[0].isalpha() else f"job-{kept}".rstrip("-")
