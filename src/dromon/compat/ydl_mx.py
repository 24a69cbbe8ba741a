"""`ydl-mx`, the command of MXNetOnYARN, over `dromon.api`: MXNet scripts, unmodified, on a cluster.

The command line becomes one job of `framework: mxnet`, which is followed to its end.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from typing import Any

from dromon import contexts
from dromon.compat import cores
from dromon.errors import DromonError, Refused, UsageError

ABOUT = """\
Run an MXNet script with a parameter server: a scheduler, servers and workers, all in the cluster.
The task is the script and its own arguments, without `python` in front. The directory you are in
goes along; what the script writes there is kept with the job, and so are the logs.
"""
EXAMPLES = """\
examples:
  ydl-mx --n 2 train_mnist.py --kv-store dist_sync            2 workers, 2 servers
  ydl-mx --n 2 --s 1 --jobname mnist train_mnist.py --kv-store dist_sync
  ydl-mx --on local --n 2 --s 1 train_mnist.py --kv-store dist_sync    try it on this machine

exit code: the job's own; 64 wrong usage, 65 refused, 69 no cluster, 130 stopped by Ctrl-C
afterwards: dromon logs JOB, dromon show JOB
"""
MXNET = {"python": "3.11", "packages": ["mxnet==1.9.1", "numpy==1.23.5"]}  # the last of each
# Accepted from old scripts, and needed no more: why.
NEEDLESS = {
    "jar": "no Java takes part",
    "yarn_app_dir": "no Java takes part",
    "yarn_app_classpath": "no Java takes part",
    "host_ip": "the scheduler runs in the cluster, not here",
    "hdfs_tempdir": "files lie under your own directory in HDFS",
    "auto_file_cache": "the directory you are in goes along",
    "log_level": "what matters is always said",
}
# Not to be had: what to do instead.
REFUSED = {
    "native": "Scala programs are not started; write a job file with `framework: mxnet` and the "
    "command to run",
    "ship_libcxx": "send the libraries by --files and set --env LD_LIBRARY_PATH=.",
    "sync_dst_dir": "the directory you are in goes along anyway",
    "host_file": "the cluster chooses the nodes",
    "sge_log_dir": "there is no Grid Engine; logs are kept with the job",
    "log_file": "redirect what is printed: 2>FILE",
}


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except DromonError as error:
        _say(error.message)
        if error.hint:
            _say(f"hint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing more can be said there
        return 141


def _say(text: str) -> None:
    print(f"ydl-mx: {text}", file=sys.stderr, flush=True)


# ---- the command line ---------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(message, hint="ydl-mx [cluster options] SCRIPT [its arguments]; --help.")


def parser() -> Parser:
    made = Parser(
        prog="ydl-mx", description=ABOUT, epilog=EXAMPLES, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="ydl-mx [cluster options] SCRIPT [its arguments]",
    )  # fmt: skip
    add = made.add_argument
    add(
        "--n", "-n", "--num-workers", dest="n", type=int, required=True, metavar="N", help="workers"
    )
    add(
        "--s", "-s", "--num-servers", dest="s", type=int, metavar="S", help="servers; N if left out"
    )
    add("--jobname", metavar="NAME", help="the job's name; the script's if left out")
    add("--on", metavar="WHERE", help="local, yarn or a context; default: yarn")
    add("--cluster", metavar="WHERE", help="the same, as it was called: yarn or local")
    add("--queue", default="default", metavar="QUEUE", help="default: default")
    for role in ("worker", "server"):
        add(f"--{role}-cores", type=int, default=1, metavar="N", help=f"of each {role}; default: 1")
        add(f"--{role}-memory", default="1g", metavar="SIZE", help=f"of each {role}; default: 1g")
    add("--worker-gpus", type=int, default=0, metavar="N", help="of each worker; default: 0")
    add("--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable; repeatable")
    add("--files", action="append", default=[], metavar="FILE", help="a further file; repeatable")
    add("--archives", action="append", default=[], metavar="FILE", help="unpacked; repeatable")
    add("--outputs", action="append", metavar="PATH", help="what to keep; everything if left out")
    add("--requirements", metavar="FILE", help="what to install for the script, MXNet among it")
    for name in (*NEEDLESS, *REFUSED):
        needless = f"accepted, not needed: {NEEDLESS[name]}" if name == "jar" else argparse.SUPPRESS
        add(f"--{name.replace('_', '-')}", metavar="X", help=needless)
    add("task", nargs=argparse.REMAINDER, metavar="SCRIPT …", help="the script and its arguments")
    return made


def _parsed(argv: list[str]) -> argparse.Namespace:
    if argv and argv[0] == "yarn":  # as in `ydl-mx yarn --n 2 …`
        argv = argv[1:]
    args = parser().parse_args(argv)
    if args.n < 1:
        raise UsageError(f"--n {args.n}: at least one worker is needed")
    args.s = args.n if args.s is None else args.s
    if args.s < 1:
        raise UsageError(f"--s {args.s}: at least one server is needed", hint="Leave --s out.")
    for name, remedy in REFUSED.items():
        if getattr(args, name) is not None:
            raise Refused(
                f"--{name.replace('_', '-')} cannot be honoured", hint=f"Instead: {remedy}."
            )
    for name, why in NEEDLESS.items():
        if getattr(args, name) is not None:
            _say(f"--{name.replace('_', '-')} is not needed any more: {why}")
    if args.cluster is not None and args.cluster not in ("yarn", "local"):
        raise Refused(
            f"--cluster {args.cluster}: only yarn and local are to be had",
            hint="`dromon context add` names further clusters, for --on.",
        )
    args.on = args.on or args.cluster or os.environ.get("DROMON_ON") or contexts.in_use() or "yarn"
    if args.task and os.path.basename(args.task[0]) in ("python", "python2", "python3"):
        args.task = args.task[1:]
    if not args.task:
        raise UsageError("no script was given", hint="ydl-mx --n 2 train.py --kv-store dist_sync")
    if args.task[0].startswith("-"):
        raise UsageError(
            f"{args.task[0]} is not a script", hint="Cluster options come first, then the script."
        )
    return args


def _size(text: str, option: str) -> str:
    """`1g` and `512m`, as dmlc wrote them, or as in a job file."""
    short = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([gmGM])", text)
    if short:
        unit = 1024 if short[2] in "gG" else 1
        return f"{int(float(short[1]) * unit)}MiB"
    if not re.fullmatch(r"\d+(\.\d+)?\s*[KMGT]i?B", text):
        raise UsageError(f"{option} {text}: not a size", hint="Write it as in 512m, 4g or 4GiB.")
    return text


# ---- the job ------------------------------------------------------------------------------------


def job(args: argparse.Namespace, stage: str) -> dict[str, Any]:
    """In the shape of the job file. Archives are unpacked into `stage`."""
    files = dict(_file(each) for each in args.files)
    for archive in args.archives:
        files.update(_unpacked(archive, stage))
    script, *arguments = args.task
    if not os.path.isfile(script):
        raise UsageError(f"there is no script {script}", hint="Paths start where you are.")
    if os.path.relpath(script).startswith(".."):
        name = os.path.basename(script)
        files[name] = os.path.abspath(script)
        script = name
    command = [os.path.relpath(script), *arguments]
    if script.endswith(".py"):
        command.insert(0, "python")
    elif os.sep not in command[0]:
        command[0] = f"./{command[0]}"
    made: dict[str, Any] = {
        "name": _name(args.jobname or os.path.splitext(os.path.basename(script))[0]),
        "framework": "mxnet",
        "queue": args.queue,
        "files": files,
        "env": dict(_variable(each) for each in args.env),
        "environment": _environment(args.requirements),
        "outputs": args.outputs or ["."],
        "roles": {
            "worker": {
                "replicas": args.n,
                "command": [word.replace("${", "$${") for word in command],
                "resources": _resources(args, "worker"),
            },
            "server": {"replicas": args.s, "resources": _resources(args, "server")},
            "scheduler": {"resources": {"cpus": 0.1, "memory": "1GiB"}},
        },
    }
    if args.worker_gpus:
        made["roles"]["worker"]["resources"]["gpus"] = args.worker_gpus
    return {key: value for key, value in made.items() if value}


def _name(text: str) -> str:
    from dromon.engines.intake import label

    return label(text)


def _resources(args: argparse.Namespace, role: str) -> dict[str, Any]:
    memory = getattr(args, f"{role}_memory")
    return {
        "cpus": getattr(args, f"{role}_cores"),
        "memory": _size(memory, f"--{role}-memory"),
    }


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        if name not in os.environ:
            raise UsageError(f"--env {name}: it is not set here", hint="Write --env NAME=VALUE.")
        value = os.environ[name]
    return name, value.replace("${", "$${")


def _file(text: str) -> tuple[str, str]:
    """FILE, or FILE#NAME to call it otherwise in the job."""
    path, _, name = text.partition("#")
    if not os.path.exists(path):
        raise UsageError(f"--files {path}: there is no such file")
    return name or os.path.basename(os.path.normpath(path)), os.path.abspath(path)


def _unpacked(archive: str, stage: str) -> dict[str, str]:
    room = tempfile.mkdtemp(dir=stage)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(room)
        else:
            with tarfile.open(archive) as tarred:
                tarred.extractall(room, filter="tar")
    except (OSError, tarfile.TarError) as error:
        raise UsageError(f"--archives {archive}: {error}") from None
    return {name: os.path.join(room, name) for name in sorted(os.listdir(room))}


def _environment(requirements: str | None) -> dict[str, Any]:
    """What was asked for; else your own Python if it has MXNet; else the last MXNet there is."""
    if requirements:
        return {"requirements": os.path.abspath(requirements)}
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('mxnet') is None)"
    if subprocess.run([sys.executable, "-c", code], check=False).returncode == 0:
        return {}
    _say(f"no MXNet is installed here; the job gets {', '.join(MXNET['packages'])}")
    return dict(MXNET)


# ---- its run ------------------------------------------------------------------------------------


def _run(argv: list[str]) -> int:
    args = _parsed(argv)
    from dromon import api

    with tempfile.TemporaryDirectory(prefix="dromon-ydl-mx-") as stage:
        asked = job(args, stage)
        here = len(os.sched_getaffinity(0))
        if args.on == "local" and cores.share(asked["roles"], here):
            _say(f"more cores were asked for than the {here} here: they are shared")
        run = api.submit([asked], on=args.on)[0]
    _say(f"submitted {run.id} on {args.on}: --n {args.n} --s {args.s} and a scheduler")
    try:
        for line in run.logs(follow=True):
            print(f"{line.member} | {line.text}", flush=True)
        status = run.wait()
    except KeyboardInterrupt:
        _say(f"stopping {run.id}")
        run.stop()
        run.wait()
        return 130
    return _conclude(run.id, status)


def _conclude(id: str, status: Any) -> int:
    from dromon.lifecycle.verdict import Verdict

    verdict = Verdict.from_json(status.verdict) if status.verdict else None
    said = f": {verdict.message}" if verdict and status.state != "succeeded" else ""
    _say(f"{id} {status.state}{said}")
    _say(f"results: dromon show {id}; logs: dromon logs {id}")
    if status.state == "succeeded":
        return 0
    return verdict.exit_code if verdict else 1


if __name__ == "__main__":
    sys.exit(main())
