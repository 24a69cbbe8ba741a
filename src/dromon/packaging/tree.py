"""The working directory as it lies on disk: which files belong to the code, and what changed.

An index remembers every directory's listing and every file's stat and digest, so that an unchanged
tree costs one stat per file. It is a cache: throwing it away changes no digest. Blobs and manifests
are made elsewhere; nothing is hashed here.
"""

import os
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dromon.errors import PackagingError
from dromon.packaging.ignore import Rules
from dromon.units import format_size

NEVER_CODE = frozenset({".git", ".hg", ".svn", "__pycache__", ".dromon"})
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
IGNORE_FILES = (".gitignore", ".dromonignore")
MAX_FILES = 200_000
# A file written again within its clock's granularity keeps its times: whatever changed this short
# before it was read is read again the next time.
RACY_NS = 2_000_000_000
MEASURED = 20_000  # entries looked at to say how big what was left out is
COUNT_ON = 0.5  # seconds of further counting once over the limit, to name the biggest paths fairly

REMEDY = "Leave it out with a line in `.dromonignore`."


class LeftOut(NamedTuple):
    path: str
    reason: str
    size: int | None  # None: too many files to count


@dataclass(slots=True)
class File:
    size: int
    mtime: int
    ctime: int
    inode: int
    executable: bool
    digest: str = ""  # "": not hashed yet
    racy: bool = True

    def same(self, st: os.stat_result) -> bool:
        return (
            st.st_mtime_ns == self.mtime
            and st.st_ctime_ns == self.ctime
            and st.st_size == self.size
            and st.st_ino == self.inode
        )

    @staticmethod
    def of(st: os.stat_result) -> "File":
        return File(
            st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino, bool(st.st_mode & stat.S_IXUSR)
        )


@dataclass(slots=True)
class Directory:
    """A directory as it was listed."""

    mtime: int
    ctime: int
    inode: int
    racy: bool
    files: dict[str, File] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    ignores: dict[str, tuple[int, int, int, int, bool, str]] = field(default_factory=dict)
    is_environment: bool = False
    size: int | None = 0  # of an environment

    def same(self, st: os.stat_result) -> bool:
        return (
            not self.racy
            and st.st_mtime_ns == self.mtime
            and st.st_ctime_ns == self.ctime
            and st.st_ino == self.inode
        )

    def shape(self) -> tuple[object, ...]:
        """What of it a manifest shows, but for the files' contents."""
        return self.files.keys(), self.links, set(self.directories), self.is_environment

    def texts(self) -> dict[str, str]:
        return {name: known[5] for name, known in self.ignores.items()}

    def to_json(self) -> list[Any]:
        files = {
            n: [f.size, f.mtime, f.ctime, f.inode, f.executable, f.digest, f.racy]
            for n, f in self.files.items()
        }
        return [
            self.mtime, self.ctime, self.inode, self.racy, files, self.links, self.directories,
            self.left_out, self.ignores, self.is_environment, self.size,
        ]  # fmt: skip

    @staticmethod
    def from_json(data: list[Any]) -> "Directory":
        mtime, ctime, inode, racy, files, links, directories, left_out, ignores, env, size = data
        return Directory(
            mtime, ctime, inode, racy, {n: File(*f) for n, f in files.items()}, links, directories,
            [LeftOut(*x) for x in left_out], {n: tuple(v) for n, v in ignores.items()}, env, size,
        )  # fmt: skip


class Walk:
    """One look at the whole tree. `directories` is the index of the look before; `ours` are
    directories in which Dromon keeps its own things."""

    def __init__(
        self, root: str, limit: int, directories: dict[str, Directory],
        ours: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.root = root
        self.ours = ours
        self.limit = limit
        self.known = directories
        self.directories: dict[str, Directory] = {}
        self.unhashed: list[tuple[str, str, File]] = []  # (directory, name, file)
        self.changed = False
        self.count = 0
        self.size = 0
        self._problems: list[PackagingError] = []
        self._measure_left = MEASURED
        self._deadline: float | None = None

    def run(self, rules: Rules, fresh: bool) -> None:
        """Fill in `directories`. `fresh`: the rules from above have changed, trust no listing."""
        stack = [("", rules, fresh)]
        while stack:
            where, rules, fresh = stack.pop()
            path = f"{self.root}/{where}" if where else self.root
            known = self.known.get(where)
            try:
                st = os.lstat(path)
                if known is not None and not fresh and self._holds(path, st, known):
                    found = known
                    rules = _extended(rules, where, found)
                else:
                    found, rules = self._list(where, path, st, known, rules)
                    fresh = fresh or known is None or known.texts() != found.texts()
                    self.changed |= known is None or known.shape() != found.shape()
            except (FileNotFoundError, NotADirectoryError):
                if not where:
                    raise PackagingError(f"The working directory {path} does not exist.") from None
                self.changed = True  # it went away while we looked
                continue
            except PermissionError:
                self._problems.append(unreadable("directory", where or path))
                continue
            self.directories[where] = found
            if not found.is_environment:
                self._look_at(where, path, found)
                stack.extend(
                    (f"{where}/{d}" if where else d, rules, fresh) for d in found.directories
                )
            if self.size > self.limit or self.count > MAX_FILES:
                self._deadline = self._deadline or time.monotonic() + COUNT_ON
                if time.monotonic() > self._deadline:
                    break
        if self._deadline is not None:
            raise self._too_big(complete=not stack)
        if self._problems:
            raise self._problems[0]

    def _look_at(self, where: str, path: str, found: Directory) -> None:
        """Every file is looked at: one written in place does not change its directory."""
        lstat = os.lstat
        prefix = path + "/"
        total = 0
        gone: list[str] = []
        for name, file in found.files.items():
            try:
                st = lstat(prefix + name)
            except OSError:
                gone.append(name)
                continue
            if not file.same(st):
                if not stat.S_ISREG(st.st_mode):
                    gone.append(name)  # became something else since it was listed
                    continue
                file = found.files[name] = File.of(st)
            if file.racy or not file.digest:
                self.unhashed.append((where, name, file))
            total += file.size
        for name in gone:
            del found.files[name]
            found.racy = self.changed = True
        self.count += len(found.files) + len(found.links) + 1
        self.size += total

    def _holds(self, path: str, st: os.stat_result, known: Directory) -> bool:
        """Whether the listing is still good: same directory, same ignore files in it."""
        if not known.same(st):
            return False
        for name, (mtime, ctime, size, inode, racy, _) in known.ignores.items():
            st = os.lstat(f"{path}/{name}")
            now = (st.st_mtime_ns, st.st_ctime_ns, st.st_size, st.st_ino)
            if racy or now != (mtime, ctime, size, inode):
                return False
        return True

    def _list(
        self, where: str, path: str, st: os.stat_result, known: Directory | None, rules: Rules
    ) -> tuple[Directory, Rules]:
        now = time.time_ns()
        with os.scandir(path) as scan:
            entries = []
            for entry in scan:
                entries.append(entry)
                if self.count + len(entries) > 2 * MAX_FILES:
                    break  # already refused; a directory of millions is not read to its end
        found = Directory(st.st_mtime_ns, st.st_ctime_ns, st.st_ino, is_racy(st, now), size=None)
        old_files = known.files if known else {}
        old_sizes = {x.path: x.size for x in known.left_out} if known else {}
        names = {e.name for e in entries}
        if where and any(mark in names for mark in ENVIRONMENT_MARKS):
            found.is_environment = True
            was = known is not None and known.is_environment
            found.size = known.size if known and was else self._measure(path)
            return found, rules
        for name in IGNORE_FILES:
            if name in names:
                self._read_ignores(f"{path}/{name}", name, now, found)
        rules = _extended(rules, where, found)
        base = f"{where}/" if where else ""
        for entry in entries:
            name = entry.name
            if name in NEVER_CODE or name.endswith(".pyc"):
                continue
            inside = base + name
            is_directory = entry.is_dir(follow_symlinks=False)
            reason = rules.why_ignored(inside, name, is_directory)
            if is_directory and entry.path in self.ours:
                reason = "Dromon's own"
            if reason is not None:
                size = old_sizes[inside] if inside in old_sizes else self._measure(entry.path)
                found.left_out.append(LeftOut(inside, reason, size))
            elif is_directory:
                found.directories.append(name)
            elif entry.is_symlink():
                try:
                    found.links[name] = self._link(path, entry.path, inside)
                except PackagingError as problem:
                    self._problems.append(problem)
            elif entry.is_file(follow_symlinks=False):
                # A placeholder that no stat equals: `_look_at` comes next.
                found.files[name] = old_files.get(name) or File(-1, 0, 0, 0, False)
            else:
                kind = "a socket, pipe or device"
                found.left_out.append(LeftOut(inside, kind, 0))
        return found, rules

    def _read_ignores(self, path: str, name: str, now: int, found: Directory) -> None:
        st = os.lstat(path)
        if not stat.S_ISREG(st.st_mode):
            return
        found.ignores[name] = (
            st.st_mtime_ns, st.st_ctime_ns, st.st_size, st.st_ino, is_racy(st, now), read(path),
        )  # fmt: skip

    def _link(self, directory: str, path: str, inside: str) -> str:
        """Where a link points, relative: an absolute one would reach the live tree."""
        target = os.readlink(path)
        aim = os.path.join(directory, target)
        landing = os.path.normpath(
            os.path.join(os.path.realpath(os.path.dirname(aim)), os.path.basename(aim))
        )
        if landing != self.root and not landing.startswith(self.root.rstrip("/") + "/"):
            raise PackagingError(
                f"The link {inside} points out of the working directory, to {target}.",
                hint="List what it points to under `files:` in the job file, or leave the link out "
                "with a line in `.dromonignore`.",
            )
        return os.path.relpath(landing, directory) if os.path.isabs(target) else target

    def _measure(self, path: str) -> int | None:
        """How big something left out is, as far as that is cheap to say."""
        total, stack = 0, [path]
        while stack:
            if self._measure_left <= 0:
                return None
            self._measure_left -= 1
            here = stack.pop()
            try:
                st = os.lstat(here)
                if stat.S_ISDIR(st.st_mode):
                    stack.extend(f"{here}/{n}" for n in os.listdir(here))
                else:
                    total += st.st_size
            except OSError:
                continue
        return total

    def _too_big(self, *, complete: bool) -> PackagingError:
        size = format_size(self.size)
        what = f"{size} in {self.count:,} files and directories"
        if self.size > self.limit:
            bound = f"the limit is {format_size(self.limit)}"
        else:
            bound = f"the limit is {MAX_FILES:,} files"
        lines = [f"  {format_size(s):>9}  {p}" for p, s in biggest(self.directories)]
        return PackagingError(
            f"The working directory {self.root} is too big to snapshot: "
            f"{'' if complete else 'at least '}{what}; {bound}. Biggest:\n" + "\n".join(lines),
            hint="Name what is not code in `.dromonignore` (same syntax as .gitignore), "
            "and give data to the job as `volumes:`.",
        )


def biggest(directories: dict[str, Directory], most: int = 5) -> list[tuple[str, int]]:
    """The few paths that hold most of the bytes. A directory stands for what it holds, unless
    nearly all of it is in one entry: then that entry does."""
    children: dict[str, dict[str, int]] = {}

    def add(path: str, size: int) -> None:
        while path:
            parent = path.rpartition("/")[0]
            level = children.setdefault(parent, {})
            level[path] = level.get(path, 0) + size
            path = parent

    for where, found in directories.items():
        for name, file in found.files.items():
            add(f"{where}/{name}" if where else name, max(0, file.size))
    out = []
    for path, size in sorted(children.get("", {}).items(), key=lambda x: -x[1])[:most]:
        while inner := children.get(path):
            top = max(inner, key=lambda p: inner[p])
            if inner[top] < 0.8 * size:
                break
            path, size = top, inner[top]
        out.append((path + "/" if path in children else path, size))
    return out


def is_racy(st: os.stat_result, now: int) -> bool:
    return max(st.st_mtime_ns, st.st_ctime_ns) > now - RACY_NS


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def unreadable(kind: str, path: str) -> PackagingError:
    return PackagingError(f"The {kind} {path} cannot be read.", hint=f"Make it readable. {REMEDY}")


def _extended(rules: Rules, where: str, found: Directory) -> Rules:
    base = f"{where}/" if where else ""
    for name in IGNORE_FILES:
        if name in found.ignores:
            text = found.ignores[name][5]
            rules = rules.below(base, base + name, text, own=name == ".dromonignore")
    return rules
