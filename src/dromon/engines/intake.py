"""From what a user typed to a Launch: parse, resolve, snapshot, record. The same for all engines.

The local engine does this in its daemon, so that a command imports next to nothing; the others do
it in the client. No engine's own words here.
"""

import getpass
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dromon import spec
from dromon.engines.base import Artifact, Launch, token
from dromon.errors import PackagingError, Refused, UsageError
from dromon.packaging import environment, snapshot
from dromon.storage.blobs import BlobStore
from dromon.units import format_size

# What a member inherits from the caller's shell. Everything else is asked for by `env:`, because
# a cluster could not give it and because an environment is full of secrets.
INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH",
     "LD_LIBRARY_PATH", "LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
     "CUDA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME"}
)  # fmt: skip
SNAPSHOT_LIMIT = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What the user typed, and from where. Comes over the daemon's socket as JSON."""

    cwd: str
    environ: Mapping[str, str] = field(repr=False)
    token: str = ""  # made by the client: the same token twice is one job
    file: str | None = None  # where `text` came from, for messages and relative paths
    text: str | None = None
    data: Mapping[str, Any] | None = None
    command: Sequence[str] | str | None = None
    overrides: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] | None = None  # a shipped function, already in the blob store
    supplied: Mapping[str, str] = field(default_factory=dict, repr=False)  # beside `environ`
    python: str = ""  # the caller's interpreter, when it is not the one its PATH gives

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Request":
        return Request(**{k: v for k, v in data.items() if k in Request.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Taken:
    """A launch with what to tell its submitter."""

    launch: Launch
    job: spec.Job
    notes: tuple[str, ...]


class Seen:
    """What many requests of one call share: a directory is hashed once for all of them."""

    def __init__(self) -> None:
        self.code: dict[Any, tuple[Artifact | None, dict[str, Any], list[str]]] = {}
        self.inherited: dict[str, str] | None = None


def label(text: str) -> str:
    """Any text as the first part of a DNS label."""
    clean = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:33].strip("-")
    return clean if clean and clean[0].isalpha() else f"job-{clean}".strip("-")[:33]


class Intake:
    """Takes requests in. Holds the store and the indexes; safe to use from several threads."""

    def __init__(
        self,
        blobs: BlobStore,
        index_dir: str,
        has_secrets: Callable[[spec.Job], bool] = lambda job: False,
        ours: Collection[str] = (),
    ) -> None:
        """`has_secrets`: the place has the values of this job's secrets itself. `ours`: what lies
        there is Dromon's, and nobody's code."""
        self.blobs = blobs
        self._has_secrets = has_secrets
        self.index_dir = index_dir
        self._ours = ours
        self.user = getpass.getuser()
        self._hosts: dict[tuple[str, ...], dict[str, Any]] = {}

    def parse(self, request: Request) -> tuple[spec.Job, str, str]:
        """The job, the directory its paths are relative to, and a name for it."""
        base = request.cwd
        if request.text is not None:
            file = request.file or "job.yaml"
            base = os.path.dirname(os.path.join(request.cwd, file))
            shown = os.path.relpath(os.path.join(request.cwd, file), request.cwd)
            shown = file if shown.startswith("..") else shown
            job = spec.load_text(
                request.text, shown, [*_flags(request.options), *request.overrides]
            )
            stem = os.path.splitext(os.path.basename(file))[0]
            fallback = os.path.basename(base) if stem in ("job", "dromon") else stem
        else:
            data = dict(request.data or {})
            if request.command is not None:
                data["command"], fallback = self._command(request)
            else:
                fallback = _command_name(data.get("command", "job"))
            overrides = [*_flags(request.options), *request.overrides]
            job = spec.load_data(data, request.file or "request", overrides)
        return job, base, label(job.name or fallback)

    def take(self, request: Request, seen: "Seen | None" = None) -> Taken:
        """`seen`: what other requests of the same submit call already found out."""
        job, base, name = self.parse(request)
        id = f"{name}-{request.token or token()}"
        asked, job = job, spec.resolve(job, id=id, name=name)
        supplied = self._supplied(job, request.environ, request.supplied)
        _check_script(job, base)
        key = (base, job.workdir, tuple(job.files.items()))
        found = seen.code.get(key) if seen is not None else None
        if found is None:
            found = self._code(job, base)
            if seen is not None:
                seen.code[key] = found
        code, about_code, notes = found
        facts = {
            **about_code,
            "user": self.user,
            "cwd": request.cwd,
            "file": request.file if request.text is not None else None,
            "inherited": self._inherited(request.environ, supplied, seen),
        }
        data = _absolute_volumes(job.to_data(), base)
        if spec.has_placeholders(asked):
            facts["unresolved"] = asked.to_data()  # a rerun with overrides fills it in anew
        launch = Launch(
            id=id,
            job=data,
            code=code,
            environment=self._environment(job, base, request),
            supplied=supplied,
            facts=facts,
            payload=Artifact(**request.payload) if request.payload else None,
        )
        return Taken(launch, job, tuple(notes))

    def take_again(
        self,
        old: Mapping[str, Any],
        built: Mapping[str, Any],
        overrides: Sequence[str],
        environ: Mapping[str, str],
        token: str,
        supplied: Mapping[str, str],
    ) -> Taken:
        """A job that ran before: its code, payload and environment stay as their digests say."""
        asked = old["facts"].get("unresolved", old["job"])
        job = spec.load_data(asked, "request", overrides)
        _refuse_other_code(spec.load_data(asked, "request", []), job)
        id = f"{old['name']}-{token}"
        unresolved, job = job, spec.resolve(job, id=id, name=old["name"])
        supplied = self._supplied(job, environ, supplied)
        facts = {**old["facts"], "inherited": _inherited(environ, supplied)}
        if "unresolved" in facts:
            facts["unresolved"] = unresolved.to_data()
        file = os.path.join(old["facts"]["cwd"], old["facts"].get("file") or "job.yaml")
        launch = Launch(
            id=id,
            job=_absolute_volumes(job.to_data(), os.path.dirname(file)),
            code=_again(old["code"]),
            environment=built,
            supplied=supplied,
            facts=facts,
            payload=_again(old["payload"]),
        )
        return Taken(launch, job, ("code and environment as they were",))

    # ---- parts ----------------------------------------------------------------------------------

    def _inherited(
        self, environ: Mapping[str, str], supplied: Mapping[str, str], seen: "Seen | None"
    ) -> dict[str, str]:
        if seen is None or supplied:
            return _inherited(environ, supplied)
        if seen.inherited is None:
            seen.inherited = _inherited(environ, supplied)
        return seen.inherited

    def _command(self, request: Request) -> tuple[Any, str]:
        command = request.command
        if not command:
            raise UsageError("no command was given", hint="dromon run -- COMMAND ARGUMENTS")
        if isinstance(command, str):
            return command, _command_name(command)
        words = list(command)
        if words[0].endswith(".py"):
            words = ["python", *words]
        elif words[0].endswith(".sh"):
            words = ["bash", *words]
        return words, _command_name(words)

    def _supplied(
        self, job: spec.Job, environ: Mapping[str, str], given: Mapping[str, str]
    ) -> dict[str, str]:
        wanted = {k for r in job.roles.values() for k, v in r.env.items() if v is None}
        wanted |= {k for k, v in job.env.items() if v is None}
        wanted |= set(job.secrets)
        if not wanted:
            return {}
        if self._has_secrets(job):
            return dict.fromkeys(wanted, "")
        environ = {**environ, **given}
        missing = sorted(wanted - set(environ))
        if missing:
            raise Refused(
                f"not set in your environment: {', '.join(missing)}",
                hint=f"The job asks for it under env: or secrets:; `export {missing[0]}=…` first, "
                "or name a file that has it: --secrets-file FILE.",
            )
        return {name: environ[name] for name in wanted}

    def _code(self, job: spec.Job, base: str) -> tuple[Artifact | None, dict[str, Any], list[str]]:
        workdir = os.path.join(base, job.workdir or ".")
        if not os.path.isdir(workdir):
            raise Refused(
                f"workdir {workdir} does not exist", hint="Set `workdir:` to a directory."
            )
        taken = snapshot.snapshot(
            workdir,
            self.blobs,
            limit=SNAPSHOT_LIMIT,
            index_dir=self.index_dir,
            files={to: os.path.join(base, source) for to, source in job.files.items()},
            ours=self._ours,
        )
        files = f"{taken.files} file{'' if taken.files == 1 else 's'}"
        notes = [f"code: {files}, {format_size(taken.size)}"]
        if taken.left_out:
            size = sum(entry[2] or 0 for entry in taken.left_out)
            count = len(taken.left_out)
            paths = "1 path" if count == 1 else f"{count} paths"
            notes.append(f"left out: {paths}, {format_size(size)}")
        facts: dict[str, Any] = {
            "git": snapshot.git_facts(workdir),
            "left_out": taken.left_out[:50],
        }
        url = f"blob:{taken.digest}"
        return Artifact(taken.digest, url, taken.size), facts, notes

    def _environment(self, job: spec.Job, base: str, request: Request) -> dict[str, Any]:
        asked = job.environment
        if asked is not None and asked.image is not None:
            return {"kind": "image", "image": asked.image}
        environ = request.environ
        key = (
            request.python,
            *(environ.get(k, "") for k in ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")),
        )
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = dict(environment.host_environment(environ, request.python))
        if asked is None:
            return host
        wanted = asked.model_dump(exclude_none=True)
        if not any(
            wanted.get(k) for k in ("packages", "requirements", "lock", "pyproject", "python")
        ):
            return host
        return {"kind": "uv", "request": wanted, "base": base, "python_hint": host["python"]}


def _refuse_other_code(before: spec.Job, after: spec.Job) -> None:
    """A rerun that silently ran the old code after all would be worse than none."""
    for key in ("workdir", "files", "environment"):
        if getattr(before, key) != getattr(after, key):
            raise Refused(
                f"a rerun has the code and the environment of the first run; {key} cannot change",
                hint="Submit it anew with `dromon run`.",
            )


def _again(artifact: Mapping[str, Any] | None) -> Artifact | None:
    if artifact is None:
        return None
    return Artifact(artifact["digest"], f"blob:{artifact['digest']}", artifact["size"])


def _flags(options: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Command-line flags, given in the job file's shape, as overrides."""
    found = []
    for key, value in options.items():
        if isinstance(value, Mapping):
            found += _flags(value, f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key}={json.dumps(value)}")
    return found


def _inherited(environ: Mapping[str, str], supplied: Mapping[str, str]) -> dict[str, str]:
    """Goes on record, so nothing that was supplied may be in it, whatever its name."""
    return {
        k: v
        for k, v in environ.items()
        if (k in INHERITED or k.startswith("LC_")) and k not in supplied
    }


def _absolute_volumes(data: dict[str, Any], base: str) -> dict[str, Any]:
    for volume in data.get("volumes", {}).values():
        source = volume["source"]
        is_path = source != "node" and "://" not in source and not source.startswith("pvc:")
        if is_path and volume.get("access") != "url":
            volume["source"] = os.path.normpath(os.path.join(base, os.path.expanduser(source)))
    return data


def _command_name(command: Any) -> str:
    words = command.split() if isinstance(command, str) else [str(w) for w in command]
    for word in words:
        if word.endswith((".py", ".sh")):
            return os.path.splitext(os.path.basename(word))[0]
    return os.path.basename(words[0]) if words else "job"


def _check_script(job: spec.Job, base: str) -> None:
    """`python train.py` with no train.py is a typing mistake, better told now than after a wait."""
    workdir = os.path.join(base, job.workdir or ".")
    for role, asked in job.roles.items():
        words = asked.command.split() if isinstance(asked.command, str) else asked.command or []
        if len(words) < 2 or os.path.basename(words[0]) not in ("python", "python3", "bash", "sh"):
            continue
        script = words[1]
        if not script.endswith((".py", ".sh")) or "$" in script or script.startswith("-"):
            continue
        if script in job.files or os.path.exists(os.path.join(workdir, script)):
            continue
        close = _closest(script, workdir)
        raise PackagingError(
            f"roles.{role}.command: there is no {script} in {workdir}",
            hint=f"Did you mean {close}?" if close else "Paths are relative to `workdir:`.",
        )


def _closest(script: str, workdir: str) -> str:
    import difflib

    try:
        names = [n for n in os.listdir(workdir) if n.endswith(script[-3:])]
    except OSError:
        return ""
    return (difflib.get_close_matches(script, names, 1) or [""])[0]
