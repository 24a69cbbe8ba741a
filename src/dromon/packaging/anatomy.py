"""What a Python says of itself: where its parts are, which packages it sees. Asked once."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dromon.errors import EnvironmentFailed, PackagingError

TARBALL = "Name a relocatable Python for the nodes: `python_tarball` of the cluster's context."

QUERY = r"""
import importlib.util, json, site, sys, sysconfig
base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix,
        "installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}
places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")] + site.getsitepackages()
if site.ENABLE_USER_SITE:
    places.insert(0, site.getusersitepackages())
layout = [p[2:] for p in site.getsitepackages(["@"]) if p.startswith("@/")]
try:
    import ssl
    certificates = ssl.get_default_verify_paths().openssl_capath
except ImportError:
    certificates = "/etc/ssl/certs"
print(json.dumps({
    "certificates": certificates,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "implementation": sys.implementation.name,
    "tag": sys.implementation.cache_tag,
    "magic": importlib.util.MAGIC_NUMBER.hex(),
    "executable": getattr(sys, "_base_executable", "") or sys.executable,
    "prefix": sys.prefix,
    "user_base": (site.getuserbase() or "") if site.ENABLE_USER_SITE else "",
    "base_prefix": sys.base_prefix,
    "base_exec_prefix": sys.base_exec_prefix,
    "stdlib": sysconfig.get_path("stdlib", vars=base),
    "include": sysconfig.get_path("include", vars=base),
    "sites": list(dict.fromkeys(places)),
    "layout": layout,
}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python of this machine and the environment it was found in."""

    version: str
    tag: str  # of its bytecode's file names
    magic: str  # of its bytecode, in hexadecimal
    prefix: str  # the environment
    sites: tuple[str, ...]  # where the environment's packages are
    user_base: str  # whose packages it sees too; empty: nobody's
    binary: str
    base: str  # the prefix of what is shipped
    stdlib: str
    include: str
    site: str  # where packages go in what is shipped, below its prefix
    certificates: str  # where its OpenSSL looks for them

    @property
    def short(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def name(self) -> str:
        return f"python{self.short}"

    def identity(self) -> list[object]:
        """Differs when another Python is installed in its place."""
        facts: list[object] = [self.version, self.binary, self.stdlib, self.site]
        for path in (self.binary, os.path.join(self.stdlib, "os.py"), self.stdlib):
            found = os.stat(path)
            facts += [found.st_size, found.st_mtime_ns]
        return facts


def interpreter(
    python: str, cache_dir: str, environ: Mapping[str, str] | None = None
) -> Interpreter:
    """Asked once for each Python: it takes two processes."""
    key = _key(python)
    place = os.path.join(cache_dir, "archives", "interpreters.json")
    known = _known(place)
    if key and key in known:
        try:
            found = Interpreter(**{**known[key], "sites": tuple(known[key]["sites"])})
            if os.path.exists(found.binary) and os.path.isdir(found.stdlib):
                return found
        except (TypeError, KeyError):
            pass
    made = _asked(python, environ)
    if key:
        known[key] = asdict(made)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        fd, fresh = tempfile.mkstemp(dir=os.path.dirname(place))
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(known, file)
        os.replace(fresh, place)
    return made


def _key(python: str) -> str:
    """Empty for a script, which may start another Python each time."""
    try:
        with open(python, "rb") as file:
            if file.read(2) == b"#!":
                return ""
        home = os.path.dirname(os.path.dirname(os.path.abspath(python)))
        facts: list[object] = [os.path.abspath(python), os.path.realpath(python)]
        for path in (python, os.path.join(home, "pyvenv.cfg")):
            facts.append(os.stat(path).st_mtime_ns if os.path.exists(path) else 0)
        return json.dumps(facts)
    except OSError:
        return ""


def _known(place: str) -> dict[str, dict[str, Any]]:
    try:
        with open(place, encoding="utf-8") as file:
            found = json.load(file)
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _asked(python: str, environ: Mapping[str, str] | None) -> Interpreter:
    told = _ask(python, environ)
    if told["implementation"] != "cpython":
        raise PackagingError(
            f"{python} is {told['implementation']}; only CPython can be shipped.", hint=TARBALL
        )
    short = ".".join(told["version"].split(".")[:2])
    beside = os.path.join(told["base_exec_prefix"], "bin", f"python{short}")
    binary = os.path.realpath(beside if os.path.exists(beside) else told["executable"])
    of_base = _ask(binary, environ) if told["prefix"] != told["base_prefix"] else told
    plain = os.path.join("lib", f"python{short}", "site-packages")
    if not of_base["layout"]:
        raise PackagingError(f"{binary} does not say where its packages are.", hint=TARBALL)
    return Interpreter(
        told["version"], told["tag"], told["magic"], told["prefix"], tuple(told["sites"]),
        told["user_base"], binary, told["base_prefix"], of_base["stdlib"], of_base["include"],
        plain if plain in of_base["layout"] else of_base["layout"][0], told["certificates"],
    )  # fmt: skip


def _ask(python: str, environ: Mapping[str, str] | None) -> dict[str, Any]:
    env = dict(os.environ if environ is None else environ)
    for name in ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP"):
        env.pop(name, None)
    try:
        done = subprocess.run(
            [python, "-E", "-c", QUERY], env=env, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
            return told
        why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        why = str(error)
    raise EnvironmentFailed(f"{python} does not say where its library is: {why}")
