"""Which files make an environment that travels, and for whom: this machine's like, or others.

Each function gives a request, by which an archive is found again, and a way to collect its pieces
when it is not. Nothing is written here.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import exists
from typing import Any

from dromon.errors import EnvironmentFailed, Refused
from dromon.packaging import anatomy, bytecode, elf, installed, platforms, runtime, tarball, uv
from dromon.packaging.anatomy import Interpreter
from dromon.packaging.environment import Lock, build, build_for_others, resolve
from dromon.packaging.linked import linked
from dromon.packaging.pieces import Piece
from dromon.packaging.platforms import Platform
from dromon.packaging.tarball import Fetch, Shipped

NAMED = 3  # files that are named in a refusal; the rest are counted


@dataclass(frozen=True, slots=True)
class Nodes:
    """Where an environment will be unpacked, and what is at hand to make it."""

    platform: Platform
    python_tarball: str
    cache_dir: str
    fetch: Fetch | None = None
    environ: Mapping[str, str] | None = None

    def shipped(self) -> Shipped | None:
        """The site's Python for them; None: this machine's will do."""
        if self.platform.is_ours:
            return None
        if self.python_tarball:
            return tarball.unpacked(self.python_tarball, self.cache_dir, self.platform, self.fetch)
        if self.platform.runs_our_programs:
            return None
        raise Refused(
            f"The nodes are {self.platform} and this machine is {platforms.ours()}: "
            "its Python does not run there.",
            hint="Set `python_tarball` of the cluster's context to a Python for "
            f"{self.platform}: the path or address (https://, hdfs://) of a "
            "python-build-standalone install_only archive.",
        )

    def interpreter(self, python: str) -> Interpreter:
        return anatomy.interpreter(python, self.cache_dir, self.environ)


@dataclass(frozen=True, slots=True)
class Bundle:
    pieces: list[Piece]
    python: str = ""
    glibc: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    built: str = ""  # the digest of the environment the pieces lie in, where uv built it


Wanted = tuple[Sequence[object], Callable[[], Bundle]]


def of_runtime(python: str, nodes: Nodes) -> Wanted:
    shipped = nodes.shipped()
    if shipped is not None:
        there = shipped
        return ["runtime", there.digest, str(nodes.platform)], lambda: _with_python(there, nodes)
    of = nodes.interpreter(python)
    request = ["runtime", of.identity(), str(nodes.platform)]
    return request, lambda: _with_packages(_copy(of, nodes, headers=False), of)


def of_host(python: str, nodes: Nodes) -> Wanted:
    """The caller's own environment, as it is."""
    if not nodes.platform.runs_our_programs:
        raise Refused(
            f"The nodes are {nodes.platform} and this machine is {platforms.ours()}: "
            f"the packages of {python} do not run there.",
            hint="Say in the job file what is needed, and it is resolved for the nodes: "
            "`environment: {requirements: requirements.txt}`.",
        )
    of = nodes.interpreter(python)
    request = ["host", of.prefix, of.identity(), installed.listing(of), str(nodes.platform)]

    def make() -> Bundle:
        found = installed.installed(of)
        _refuse_too_new(found.pieces, nodes.platform)
        return _with_packages(_copy(of, nodes), of, found.pieces, found.left_out)

    return request, make


def resolve_for(environment: Mapping[str, Any], nodes: Nodes) -> Lock:
    """Exact versions for the nodes, of what the job file asks for."""
    shipped = nodes.shipped()
    asked = environment["request"]
    wanted = re.match(r"\d+\.\d+", str(asked.get("python") or ""))
    if shipped is not None and wanted and wanted[0] != shipped.short:
        raise Refused(
            f"environment.python asks for {asked['python']}, and the Python that the site has for "
            f"{nodes.platform} is {shipped.short}.",
            hint="Ask for that one, or have `python_tarball` of the cluster's context changed.",
        )
    return resolve(
        asked, environment["base"], nodes.cache_dir, environment["python_hint"],
        environ=nodes.environ, target="" if nodes.platform.is_ours else nodes.platform.uv_name,
        target_python=shipped.short if shipped else "",
    )  # fmt: skip


def of_lock(lock: Lock, nodes: Nodes, tell: uv.Progress) -> Wanted:
    if not lock.platform:
        if not nodes.platform.is_ours:
            raise Refused(
                f"This environment was resolved for {platforms.ours()}, and the nodes are "
                f"{nodes.platform}.",
                hint="Submit the job anew with `dromon run`: it is resolved for the nodes then.",
            )
        return _of_our_lock(lock, nodes, tell)
    shipped = nodes.shipped()
    of = None if shipped is not None else nodes.interpreter(lock.interpreter)
    ship = shipped.digest if shipped is not None else of.identity() if of else ""
    request = ["uv", lock.digest, ship, str(nodes.platform)]

    def make() -> Bundle:
        copy = _copy(of, nodes) if of is not None else None  # may refuse, so before uv works
        packages = build_for_others(lock, nodes.cache_dir, tell, environ=nodes.environ)
        if shipped is not None:
            inside = installed.of_directory(packages, shipped.site)
            return replace(_with_python(shipped, nodes, inside), built=lock.digest)
        assert copy is not None
        assert of is not None
        inside = installed.of_directory(packages, of.site)
        return replace(_with_packages(copy, of, inside), built=lock.digest)

    return request, make


def _of_our_lock(lock: Lock, nodes: Nodes, tell: uv.Progress) -> Wanted:
    def built() -> str:
        return build(lock, nodes.cache_dir, tell, environ=nodes.environ)

    python = lock.interpreter if exists(lock.interpreter) else built()
    base = nodes.interpreter(python)

    def make() -> Bundle:
        of = nodes.interpreter(built())
        found = installed.installed(of)
        made = _with_packages(_copy(of, nodes), of, found.pieces, found.left_out)
        return replace(made, built=lock.digest)

    return ["uv", lock.digest, base.identity(), str(nodes.platform)], make


def _copy(of: Interpreter, nodes: Nodes, *, headers: bool = True) -> runtime.Runtime:
    """A Python of this machine, if the nodes can run it."""
    copy = runtime.runtime(of, headers=headers)
    needed = tuple(int(n) for n in copy.glibc.split("."))
    if nodes.platform.glibc is not None and needed > nodes.platform.glibc:
        raise Refused(
            f"The Python of this machine needs the GNU C library {copy.glibc}, and the nodes are "
            f"{nodes.platform}.",
            hint="Set `python_tarball` of the cluster's context to a Python for such nodes.",
        )
    return copy


def _with_packages(
    copy: runtime.Runtime,
    of: Interpreter,
    packages: Iterable[Piece] = (),
    notes: Sequence[str] = (),
) -> Bundle:
    all_pieces = _over(copy.pieces, packages)
    all_pieces += linked(all_pieces, of)
    all_pieces += bytecode.compiled(all_pieces, of.binary, of.tag, bytes.fromhex(of.magic))
    return Bundle(all_pieces, of.version, copy.glibc, notes)


def _with_python(there: Shipped, nodes: Nodes, packages: Iterable[Piece] = ()) -> Bundle:
    """The site's Python for other machines, and packages."""
    all_pieces = _over(tarball.pieces(there, headers=bool(packages)), packages)
    notes = []
    try:
        find = ["python", "find", "--no-project", there.short]
        found = uv.run(find, cwd=nodes.cache_dir, what="", environ=nodes.environ).strip()
        of = nodes.interpreter(found)
        all_pieces += bytecode.compiled(
            all_pieces, of.binary, there.tag, bytes.fromhex(of.magic)
        )  # bytecode is of a version, not of a machine
    except EnvironmentFailed:
        notes.append(
            f"there is no Python {there.short} here to compile with: programs start slower"
        )
    return Bundle(all_pieces, there.short, there.glibc, notes)


def _over(base: Iterable[Piece], packages: Iterable[Piece]) -> list[Piece]:
    """The interpreter's own files stay, whatever a package brought under the same name."""
    out = {p.name: p for p in packages}
    out.update((p.name, p) for p in base)
    return list(out.values())


def _refuse_too_new(packages: Iterable[Piece], platform: Platform) -> None:
    if platform.glibc is None or platform.is_ours:
        return
    found = []
    for piece in packages:
        if piece.source and ".so" in piece.name:
            try:
                needed = elf.read_file(piece.source).glibc
            except (OSError, elf.NotElf):
                continue
            if needed > platform.glibc:
                found.append(f"{piece.name} ({needed[0]}.{needed[1]})")
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise Refused(
            f"Packages of this environment need a newer C library than nodes of {platform} have: "
            f"{', '.join(found[:NAMED])}{more}.",
            hint="Say in the job file what is needed (`environment:`), and packages are resolved "
            "for such nodes.",
        )
