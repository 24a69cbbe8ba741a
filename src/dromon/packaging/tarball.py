"""A relocatable Python that a site names for its nodes: fetched once, unpacked, looked through.

Two forms are known: a python-build-standalone "install_only" archive, and an archive that Dromon
made itself of an interpreter (`archive.runtime_archive`) on a machine like the nodes.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from dromon.errors import PackagingError, Refused
from dromon.packaging import elf
from dromon.packaging.environment import COMPLETE, alone
from dromon.packaging.pieces import Piece, of_file
from dromon.packaging.platforms import Platform
from dromon.packaging.runtime import LEFT_OUT, MARKER, files, launchers, marker

Fetch = Callable[[str, str], None]  # from a URL, to a path
FORMS = "A python-build-standalone install_only archive, or one made by Dromon, is meant."
WINDOWS = re.compile(r"^lib(tcl|tk|itcl|tdbc|thread)")


@dataclass(frozen=True, slots=True)
class Shipped:
    """A Python for other machines, unpacked on this one, where it may well not run."""

    prefix: str
    digest: str
    short: str  # "3.12"
    site: str
    machine: str
    glibc: str

    @property
    def tag(self) -> str:
        return "cpython-" + self.short.replace(".", "")


def unpacked(where: str, cache_dir: str, platform: Platform, fetch: Fetch | None = None) -> Shipped:
    """`where` is a path, an http(s) URL, or a URL that `fetch` knows how to get (hdfs://…)."""
    key = _key(where)
    home = os.path.join(os.path.abspath(cache_dir), "pythons", key)
    with alone(home + ".lock", lambda _: None):
        if not os.path.exists(os.path.join(home, COMPLETE)):
            shutil.rmtree(home, ignore_errors=True)
            os.makedirs(home, mode=0o700)
            _get(where, os.path.join(home, "archive"), fetch)
            _unpack(os.path.join(home, "archive"), os.path.join(home, "python"), where)
            os.unlink(os.path.join(home, "archive"))
            with open(os.path.join(home, COMPLETE), "w", encoding="utf-8") as file:
                file.write(where + "\n")
    found = _look(os.path.join(home, "python"), key, where)
    if found.machine != platform.machine:
        raise Refused(
            f"The Python of {where} is for {found.machine}, and the nodes are {platform}.",
            hint="Set `python_tarball` of the cluster's context to one for the nodes.",
        )
    return found


def pieces(of: Shipped, *, headers: bool) -> list[Piece]:
    """Without bytecode."""
    out = []
    stdlib = f"lib/python{of.short}"
    for top in ("lib", "lib64"):
        root = os.path.join(of.prefix, top)
        if not os.path.isdir(root):
            continue
        for name, path, found in files(root):
            inner = name.removeprefix(f"python{of.short}/")
            if inner != name:
                if LEFT_OUT.search(inner):
                    continue
            elif ".so" not in name or "/" in name or WINDOWS.match(name):
                continue
            elif os.path.islink(path) and name.endswith(".so"):
                continue  # for linkers
            out.append(of_file(f"{top}/{name}", path, found))
    program = os.path.join(of.prefix, "bin", f"python{of.short}")
    out.append(of_file(f"bin/python{of.short}", program, os.stat(program)))
    with open(program, "rb") as file:
        loader = elf.read(file.read()).interpreter
    out += launchers(f"python{of.short}", loader, of.glibc, of.machine)
    out.append(marker(f"{of.short}.0", of.site, of.glibc, of.machine))
    if headers:
        root = os.path.join(of.prefix, "include")
        if os.path.isdir(root):
            out += [of_file(f"include/{n}", p, found) for n, p, found in files(root)]
    if not any(p.name == f"{stdlib}/os.py" for p in out):
        raise PackagingError(f"{of.prefix} has no standard library in {stdlib}.", hint=FORMS)
    return out


def _key(where: str) -> str:
    facts: list[object] = [where]
    path = where.removeprefix("file://")
    if "://" not in path:
        try:
            found = os.stat(os.path.expanduser(path))
        except OSError as error:
            raise Refused(
                f"python_tarball: {path} cannot be read: {error.strerror}.", hint=FORMS
            ) from None
        facts += [found.st_size, found.st_mtime_ns]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _get(where: str, target: str, fetch: Fetch | None) -> None:
    import urllib.request  # and with it half the standard library

    try:
        if where.startswith(("http://", "https://")):
            with urllib.request.urlopen(where, timeout=60) as answer, open(target, "wb") as file:
                shutil.copyfileobj(answer, file, 1024 * 1024)
        elif "://" not in where or where.startswith("file://"):
            shutil.copyfile(os.path.expanduser(where.removeprefix("file://")), target)
        elif fetch is not None:
            fetch(where, target)
        else:
            raise Refused(f"python_tarball: {where} is at no place that can be read from here.")
    except OSError as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise PackagingError(f"python_tarball: {where} cannot be fetched: {why}.") from error


def _unpack(archive: str, target: str, where: str) -> None:
    """Files and links alone, and none of them outside."""
    import tarfile

    os.makedirs(target)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                path = os.path.normpath(os.path.join(target, member.name))
                if not path.startswith(target + "/"):
                    continue
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if member.issym():
                    aim = os.path.normpath(os.path.join(os.path.dirname(path), member.linkname))
                    if aim.startswith(target + "/") and not os.path.lexists(path):
                        os.symlink(member.linkname, path)
                elif member.isreg() or member.islnk():
                    source = tar.extractfile(member)
                    assert source is not None
                    with source, open(path, "wb") as file:
                        shutil.copyfileobj(source, file)
                    os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
                    os.utime(path, (member.mtime, member.mtime))
    except (tarfile.TarError, EOFError, OSError, KeyError) as error:
        raise PackagingError(
            f"python_tarball: {where} cannot be unpacked: {error}.", hint=FORMS
        ) from error


def _look(root: str, key: str, where: str) -> Shipped:
    inner = [root, *(os.path.join(root, n) for n in sorted(os.listdir(root)))]
    for prefix in inner:
        directory = os.path.join(prefix, "bin")
        names = os.listdir(directory) if os.path.isdir(directory) else []
        for name in sorted(names):
            short = re.fullmatch(r"python(3\.\d+)", name)
            path = os.path.join(directory, name)
            if short and not os.path.islink(path):
                with open(path, "rb") as file:
                    try:
                        found = elf.read(file.read())
                    except elf.NotElf:
                        continue
                told = _marked(prefix)
                return Shipped(
                    prefix, key, short[1],
                    told.get("site") or f"lib/python{short[1]}/site-packages", found.machine,
                    told.get("glibc") or ".".join(map(str, found.glibc)),
                )  # fmt: skip
    raise PackagingError(f"python_tarball: {where} has no bin/python3.x.", hint=FORMS)


def _marked(prefix: str) -> dict[str, str]:
    try:
        with open(os.path.join(prefix, MARKER), encoding="utf-8") as file:
            told = json.load(file)
        return told if isinstance(told, dict) else {}
    except (OSError, ValueError):
        return {}
