"""A Python that runs wherever it is unpacked: the program behind an interpreter, its standard
library, and the shared libraries they need that are not the C library's own.

Nodes need no Python for it, but a C library at least as new as the one it asks for.
"""

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dromon.errors import PackagingError
from dromon.packaging import elf
from dromon.packaging.anatomy import TARBALL, Interpreter
from dromon.packaging.pieces import Piece, of_data, of_file

# Not for a node: tests, what draws windows, what installs packages, what links programs.
LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|test|tests|idlelib|idle_test|turtledemo|tkinter|ensurepip|site-packages"
    r"|dist-packages|config-[^/]*)(/|$)"
    r"|^(turtle\.py|lib-dynload/(_tkinter|nis|_test|_xxtest|_ctypes_test|xxlimited|xxsubtype)"
    r"[^/]*)$|\.(pyc|pyo|a|o|orig)$|^EXTERNALLY-MANAGED$|(^|/)libpython[^/]*\.so[^/]*$"
)
# Comes with the C library, and must be the node's own.
OF_LIBC = re.compile(
    r"^(ld-linux.*|linux-vdso|lib(c|m|dl|pthread|rt|util|resolv|anl|mvec|nss_.*|BrokenLocale"
    r"|thread_db|c_malloc_debug))\.so|^libnsl\.so\.1$"
)
LOADERS = {
    "x86_64": "/lib64/ld-linux-x86-64.so.2",
    "aarch64": "/lib/ld-linux-aarch64.so.1",
}
MARKER = "dromon-python.json"

LAUNCHER = """#!/bin/sh
# Starts the Python that lies beside this file, wherever that is.
self=$0
case $self in */*) ;; *) self=./$self ;; esac
while [ -h "$self" ]; do
    link=$(command -p readlink "$self")
    case $link in /*) self=$link ;; *) self=${{self%/*}}/$link ;; esac
done
if [ ! -e {loader} ]; then
    echo "dromon: this Python needs the GNU C library {glibc} or newer for {machine};" \\
        "this node has no {loader}" >&2
    exit 126
fi
libc=$(command -p getconf GNU_LIBC_VERSION 2>/dev/null)
libc=${{libc#glibc }}
case $libc in
    2.[0-9]*)
        if [ "${{libc#2.}}" -lt {minor} ] 2>/dev/null; then
            echo "dromon: this Python needs the GNU C library {glibc} or newer;" \\
                "this node has $libc" >&2
            exit 126
        fi ;;
esac
if [ -z "$SSL_CERT_FILE$SSL_CERT_DIR" ] && [ ! -e "{certificates}" ]; then
    for known in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \\
        /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        if [ -e $known ]; then
            export SSL_CERT_FILE=$known
            break
        fi
    done
fi
exec "${{self%/*}}/{name}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    pieces: tuple[Piece, ...]  # without bytecode
    glibc: str  # "2.35": what a node must have
    machine: str


def runtime(of: Interpreter, *, headers: bool = False) -> Runtime:
    """The files of a relocatable copy. `headers`: also what compilers of C need on a node."""
    inside = os.path.relpath(of.stdlib, of.base)
    if inside.startswith(".."):
        raise PackagingError(
            f"{of.binary} has its library elsewhere, in {of.stdlib}.", hint=TARBALL
        )
    main = _binary(of.binary)
    pieces: list[Piece] = []
    programs = [of.binary]
    for name, path, found in files(of.stdlib, LEFT_OUT):
        if name.endswith(".so"):
            programs.append(path)
        else:
            pieces.append(of_file(f"{inside}/{name}", path, found))
    glibc = core = main.glibc
    libraries = {n: p for n, p in _libraries(programs).items() if not OF_LIBC.match(n)}
    shipped = [(f"{inside}/{os.path.relpath(p, of.stdlib)}", p) for p in programs[1:]]
    shipped += [(f"lib/{name}", path) for name, path in libraries.items()]
    for name, path in shipped:
        data, needs = moved(name, path)
        glibc = max(glibc, needs)
        if name.startswith("lib/libpython"):
            core = max(core, needs)
        pieces.append(of_data(name, data, executable=True))
    data = _relocated(of.binary, f"$ORIGIN/{os.path.relpath('lib', 'bin')}")
    pieces.append(of_data(f"bin/{of.name}", data, executable=True))
    version = _version(glibc)
    pieces += launchers(of.name, main.interpreter, _version(core), main.machine, of.certificates)
    pieces.append(marker(of.version, of.site, version, main.machine))
    if headers and os.path.isdir(of.include):
        to = f"include/{os.path.basename(of.include)}"
        pieces += [of_file(f"{to}/{n}", p, found) for n, p, found in files(of.include)]
    return Runtime(tuple(pieces), version, main.machine)


def _version(glibc: tuple[int, int]) -> str:
    return "{}.{}".format(*glibc)


def marker(version: str, site: str, glibc: str, machine: str) -> Piece:
    """What cannot be seen from outside, for whoever packs this Python again."""
    told = {"version": version, "site": site, "glibc": glibc, "machine": machine}
    return of_data(MARKER, json.dumps(told, sort_keys=True).encode())


def launchers(
    name: str, loader: str, glibc: str, machine: str, certificates: str = "/etc/ssl/certs"
) -> list[Piece]:
    """`certificates` is where this Python's OpenSSL looks; systems differ in where they are."""
    minor = glibc.split(".")[1]
    text = LAUNCHER.format(
        name=name,
        loader=loader,
        glibc=glibc,
        minor=minor,
        machine=machine,
        certificates=certificates,
    ).encode()
    return [of_data(f"bin/{short}", text, executable=True) for short in ("python", "python3")]


def files(
    root: str, left_out: re.Pattern[str] | None = None, under: str = "", above: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, os.stat_result]]:
    """(name below root, path, what it is) of every file whose name `left_out` is not found in.

    Links are followed, but not in rings.
    """
    where = os.path.join(root, under) if under else root
    try:
        with os.scandir(where) as entries:
            listed = sorted(entries, key=lambda e: e.name)
    except OSError as error:
        raise PackagingError(f"{where} cannot be read: {error.strerror}.") from error
    for entry in listed:
        name = f"{under}/{entry.name}" if under else entry.name
        if entry.name == "__pycache__" or (left_out is not None and left_out.search(name)):
            continue
        if entry.is_dir():
            real = os.path.realpath(entry.path) if entry.is_symlink() else ""
            if real in above or (real and f"{os.path.realpath(where)}/".startswith(f"{real}/")):
                continue
            yield from files(root, left_out, name, (*above, real) if real else above)
            continue
        try:
            found = entry.stat()
        except OSError:  # a link to nothing
            continue
        if stat.S_ISREG(found.st_mode):
            yield name, entry.path, found


def _binary(path: str) -> elf.Elf:
    """What the program is, or why it cannot be shipped."""
    try:
        found = elf.read_file(path)
    except elf.NotElf as error:
        raise PackagingError(f"{path} cannot be shipped: {error}.", hint=TARBALL) from None
    if "musl" in found.interpreter:
        raise PackagingError(
            f"{path} is built for the musl C library, and nodes of a cluster have GNU's.",
            hint=TARBALL,
        )
    if found.interpreter != LOADERS.get(found.machine):
        raise PackagingError(
            f"{path} is started by {found.interpreter or 'no loader'}, which nodes do not have.",
            hint=TARBALL,
        )
    return found


def moved(name: str, path: str) -> tuple[bytes, tuple[int, int]]:
    """A library's bytes. One that names no place itself looks where the program does."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        found = elf.read(data)
    except elf.NotElf:
        return data, (0, 0)
    search = f"$ORIGIN/{os.path.relpath('lib', os.path.dirname(name))}" if found.search else ""
    return _relocated(path, search.removesuffix("/.")), found.glibc


def _relocated(path: str, search: str) -> bytes:
    with open(path, "rb") as file:
        data = file.read()
    try:
        return elf.relocatable(data, search)
    except elf.NotElf as error:
        raise PackagingError(f"{path} cannot be shipped: {error}.", hint=TARBALL) from None


def _libraries(programs: Sequence[str]) -> dict[str, str]:
    """What the loader of this machine would load for them: name -> path."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["ldd", *programs], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except OSError:
        raise PackagingError(
            "`ldd`, which says what a Python needs, is not installed.", hint=TARBALL
        ) from None
    found: dict[str, str] = {}
    for name, path in re.findall(r"^\s+(\S+) => (/.*?)(?: \(0x[0-9a-f]+\))?$", done.stdout, re.M):
        found.setdefault(os.path.basename(name), path)
    return found
