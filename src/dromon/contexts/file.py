"""Contexts and the file they are in. Nobody is asked here, and no engine is known."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from dromon.contexts import path
from dromon.errors import UsageError

KINDS = ("yarn",)
RESERVED = ("local", "yarn", "kubernetes")
MEND = "Mend the file, or remove it and add the contexts anew."
CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
TEACH = (
    "`dromon context add NAME --yarn rm:8032` makes one (or --yarn http://rm:8088, or --yarn "
    "/etc/hadoop/conf); or set HADOOP_CONF_DIR and say --on yarn."
)


class ContextError(UsageError):
    """There is no such context."""

    hint = "`dromon context list` lists them."


class Context(NamedTuple):
    """A place by name. What is empty is found out, or the cluster's own default."""

    name: str
    kind: str  # "yarn"
    where: str  # host:port, a URL, or a directory of *-site.xml files
    queue: str = ""  # for jobs that name none
    user: str = ""  # who the cluster is told we are
    store: str = ""  # where records and blobs lie there; else the user's home directory
    shared: str = ""  # a path all nodes see, for checkpoints
    python_tarball: str = ""  # an interpreter for nodes of another platform
    platform: str = ""  # of the nodes, where it is not this machine's: linux-aarch64
    public_root: str = ""  # blobs that all users share
    properties: Mapping[str, str] = {}  # Hadoop's own, over what the site says

    def to_data(self) -> dict[str, Any]:
        """As in the file: only what is set, without the name."""
        return {key: value for key, value in self._asdict().items() if value and key != "name"}


LOCAL = Context("local", "local", "")
SETTINGS = tuple(f for f in Context._fields if f not in ("name", "kind", "where", "properties"))


def make(name: str, kind: str, where: str, settings: Mapping[str, str] | None = None) -> Context:
    """Checked; a key with a dot in it is a property of Hadoop's. A directory becomes absolute."""
    import re

    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,39}", name) or name in RESERVED:
        why = "is taken" if name in RESERVED else "is no name: small letters, digits, . _ -"
        raise ContextError(f"context {name!r}: that {why}", hint="For example prod.")
    given = dict(settings or {})
    properties = {key: given.pop(key) for key in list(given) if "." in key}
    for key in given:
        if key not in SETTINGS:
            raise ContextError(
                f"context {name}: there is no setting {key!r}{near(key, SETTINGS)}",
                hint=f"Settings: {', '.join(SETTINGS)}; properties of Hadoop's have dots in them.",
            )
    return Context(name, kind, place(where), **given, properties=properties)


def place(where: str) -> str:
    """An address as it is; a directory made absolute, and it must have a site in it."""
    if not where or any(c.isspace() for c in where):
        raise ContextError(f"{where!r} is no address and no directory", hint=TEACH)
    if where.startswith(("http://", "https://")):
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
    """What `--on` names: "local", a context, or "yarn" for the only one of that kind."""
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
        if on == "yarn":
            return self._yarn()
        if on == "kubernetes":
            raise ContextError(
                "there is no engine for kubernetes yet", hint="Engines: local, yarn."
            )
        known = ["local", "yarn", *self.by_name]
        raise ContextError(f"there is no context {on!r}{near(on, known)}", hint=self._teach())

    def _yarn(self) -> Context:
        found = [context for context in self.by_name.values() if context.kind == "yarn"]
        if len(found) == 1:
            return found[0]
        if found:
            default = self.by_name.get(self.default)
            if default is not None and default.kind == "yarn":
                return default
            names = ", ".join(context.name for context in found)
            raise ContextError(
                f"there are several contexts of yarn: {names}",
                hint=f"Say --on {found[0].name}, or `dromon context use {found[0].name}`.",
            )
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
