"""Contexts and the file they are in. Nobody is asked here, and no engine is known."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from dromon.contexts import path
from dromon.errors import UsageError

KINDS = ("yarn", "kubernetes")
RESERVED = ("local", "yarn", "kubernetes")
MEND = "Mend the file, or remove it and add the contexts anew."
CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
TEACH = (
    "`dromon context add NAME --yarn rm:8032` makes one (or --yarn http://rm:8088, or --yarn "
    "/etc/hadoop/conf); or set HADOOP_CONF_DIR and say --on yarn. For Kubernetes say "
    "`dromon context add NAME --kubernetes`, or just --on kubernetes."
)
CURRENT = "current"  # the kubeconfig's own choice


class ContextError(UsageError):
    """There is no such context."""

    hint = "`dromon context list` lists them."


class Context(NamedTuple):
    """A place by name. What is empty is found out, or the cluster's own default."""

    name: str
    kind: str  # "yarn", "kubernetes"
    # YARN: host:port, a URL, or a directory of *-site.xml files. Kubernetes: a context of the
    # kubeconfig, "current", or PATH or PATH#CONTEXT of another kubeconfig.
    where: str
    queue: str = ""  # for jobs that name none
    user: str = ""  # who the cluster is told we are
    # Where records and blobs lie there. YARN: else the user's home directory on HDFS. Kubernetes:
    # nfs://server/path, pvc:CLAIM[/path] or a path that all nodes have; else there is none.
    store: str = ""
    shared: str = ""  # YARN: a path all nodes see, for checkpoints
    python_tarball: str = ""  # YARN: an interpreter for nodes of another platform
    platform: str = ""  # of the nodes, where it is not this machine's: linux-aarch64
    public_root: str = ""  # YARN: blobs that all users share
    namespace: str = ""  # Kubernetes: else the kubeconfig's, else default
    image: str = ""  # Kubernetes: for jobs that name none
    python: str = ""  # Kubernetes: of that image, which runs the agent
    pull: str = ""  # Kubernetes: Always, IfNotPresent or Never
    mounted: str = ""  # Kubernetes: where this machine sees the store
    blobs: str = ""  # Kubernetes: s3://bucket/prefix, where code and environments go instead
    run_as: str = ""  # Kubernetes: UID[:GID] of members; else the image's, or whose the store is
    # Keys with dots. YARN: Hadoop's own, over what the site says. Kubernetes: label.WORD, the
    # selector that `node_label: WORD` stands for; gpu.resource, gpu.label.
    properties: Mapping[str, str] = {}

    def to_data(self) -> dict[str, Any]:
        """As in the file: only what is set, without the name."""
        return {key: value for key, value in self._asdict().items() if value and key != "name"}


LOCAL = Context("local", "local", "")
SETTINGS = {
    "yarn": (
        "queue", "user", "store", "shared", "python_tarball", "platform", "public_root",
    ),
    "kubernetes": (
        "queue", "user", "store", "platform", "namespace", "image", "python", "pull", "mounted",
        "blobs", "run_as",
    ),
}  # fmt: skip
DOTTED = {
    "yarn": "properties of Hadoop's have dots in them",
    "kubernetes": "label.WORD=KEY=VALUE says which nodes `node_label: WORD` means",
}


def make(name: str, kind: str, where: str, settings: Mapping[str, str] | None = None) -> Context:
    """Checked; a key with a dot in it is a property. A path becomes absolute."""
    import re

    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,39}", name) or name in RESERVED:
        why = "is taken" if name in RESERVED else "is no name: small letters, digits, . _ -"
        raise ContextError(f"context {name!r}: that {why}", hint="For example prod.")
    given = dict(settings or {})
    properties = {key: given.pop(key) for key in list(given) if "." in key}
    settings_of = SETTINGS[kind]
    for key in given:
        if key not in settings_of:
            raise ContextError(
                f"context {name}: there is no setting {key!r}{near(key, settings_of)}",
                hint=f"Settings: {', '.join(settings_of)}; {DOTTED[kind]}.",
            )
    found = place(where) if kind == "yarn" else kubeconfig(where)
    return Context(name, kind, found, **given, properties=properties)


def kubeconfig(where: str) -> str:
    """A name as it is; a file made absolute, and it must be there."""
    path, _, name = where.partition("#")
    if os.sep not in path and not path.startswith("~"):
        return where or CURRENT
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise ContextError(f"there is no kubeconfig {path}", hint=TEACH)
    return f"{path}#{name}" if name else path


def place(where: str) -> str:
    """An address as it is; a directory made absolute, and it must have a site in it."""
    scheme, is_url, rest = where.rpartition("://")
    if not (rest.strip("/") if is_url else rest) or any(c.isspace() for c in where):
        raise ContextError(f"{where!r} is no address and no directory", hint=TEACH)
    if is_url and scheme not in ("http", "https"):
        raise ContextError(f"{where} is not the address of a ResourceManager", hint=TEACH)
    if is_url:
        return where.rstrip("/")
    if os.sep not in where and not where.startswith("~") and not os.path.isdir(where):
        return where
    path = os.path.abspath(os.path.expanduser(where))
    if not os.path.isdir(path):
        raise ContextError(f"there is no directory {path}", hint=TEACH)
    if not any(name.endswith("-site.xml") for name in os.listdir(path)):
        raise ContextError(
            f"there is no *-site.xml in {path}", hint="Name the directory HADOOP_CONF_DIR names."
        )
    return path


def resolve(on: str) -> Context:
    """What `--on` names: "local", a context, or a kind for the only one of that kind."""
    if on == "local":
        return LOCAL
    return Contexts.read().resolve(on)


class Contexts:
    """What the file says. Changing it means `write`, which replaces the file at once."""

    def __init__(self, path: str, default: str, by_name: dict[str, Context]) -> None:
        self.path = path
        self.default = default
        self.by_name = by_name

    @staticmethod
    def read() -> Contexts:
        place = path()
        try:
            with open(place, "rb") as file:
                about = os.fstat(file.fileno())
                text = file.read(1 << 20).decode()
        except (FileNotFoundError, NotADirectoryError):
            return Contexts(place, "", {})
        except UnicodeDecodeError:
            raise ContextError(f"{place}: not a text file (UTF-8)", hint=MEND) from None
        except OSError as error:
            raise ContextError(f"cannot read {place}: {error.strerror}", hint=MEND) from None
        if about.st_uid not in (os.getuid(), 0) or about.st_mode & 0o022:
            raise ContextError(
                f"{place}: others can write it, and so decide where your jobs go",
                hint=f"Look at what is in it, then `chmod 600 {place}`.",
            )
        from dromon.contexts.reading import parse

        default, by_name = parse(place, text)
        return Contexts(place, default, by_name)

    def resolve(self, on: str) -> Context:
        if found := self.by_name.get(on):
            return found
        if on in KINDS:
            return self._of_kind(on)
        known = [*RESERVED, *self.by_name]
        raise ContextError(f"there is no context {on!r}{near(on, known)}", hint=self._teach())

    def _of_kind(self, kind: str) -> Context:
        found = [context for context in self.by_name.values() if context.kind == kind]
        if len(found) == 1:
            return found[0]
        if found:
            default = self.by_name.get(self.default)
            if default is not None and default.kind == kind:
                return default
            names = ", ".join(context.name for context in found)
            raise ContextError(
                f"there are several contexts of {kind}: {names}",
                hint=f"Say --on {found[0].name}, or `dromon context use {found[0].name}`.",
            )
        if kind == "kubernetes":
            return Context(kind, kind, CURRENT)
        for variable in CONF_DIRS:
            if value := os.environ.get(variable):
                try:
                    return Context("yarn", "yarn", place(value))
                except ContextError as error:
                    raise ContextError(f"{variable}: {error.message}", hint=error.hint) from None
        raise ContextError("no YARN cluster is known here", hint=TEACH)

    def _teach(self) -> str:
        return f"Contexts: {', '.join(['local', *self.by_name])}." if self.by_name else TEACH

    def get(self, name: str) -> Context:
        """One of the file; not what `yarn` may stand for."""
        if name not in self.by_name:
            raise ContextError(
                f"there is no context {name!r}{near(name, list(self.by_name))}", hint=self._teach()
            )
        return self.by_name[name]

    def put(self, context: Context, default: bool) -> None:
        """Add it, or replace the one of that name."""
        self.by_name[context.name] = context
        self.default = context.name if default else self.default
        self.write()

    def remove(self, name: str) -> None:
        del self.by_name[self.get(name).name]
        self.default = "" if self.default == name else self.default
        self.write()

    def use(self, name: str) -> None:
        self.default = "" if name == "local" else self.get(name).name
        self.write()

    def write(self) -> None:
        """In one step: whoever reads meanwhile sees the old file or the new one, never half."""
        data: dict[str, Any] = {"default": self.default} if self.default else {}
        data["contexts"] = {name: context.to_data() for name, context in self.by_name.items()}
        new = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(fd, "w", encoding="utf-8") as file:
                    file.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
                    file.flush()
                    os.fsync(fd)
                os.replace(new, self.path)
            except BaseException:
                os.unlink(new)
                raise
        except OSError as error:
            raise ContextError(
                f"cannot write {self.path}: {error.strerror}",
                hint="DROMON_CONFIG names another directory.",
            ) from None


def near(word: str, known: Any) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
