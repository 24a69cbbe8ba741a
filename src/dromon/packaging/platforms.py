"""The machines a job will run on, as far as packages care: `linux-x86_64`, `linux-aarch64`, and
where the site says so the C library of its oldest node: `linux-x86_64-glibc2.17`.
"""

import os
import platform as this_machine
import re
import sys
from dataclasses import dataclass

from dromon.errors import UsageError

DEFAULT = "linux-x86_64"
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
FORM = re.compile(r"^linux-(\w+?)(?:-glibc(\d+)\.(\d+))?$")
# The second numbers of the C libraries that uv knows packages for.
KNOWN_TO_UV = (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
MODERN = (2, 28)


@dataclass(frozen=True, slots=True)
class Platform:
    machine: str
    glibc: tuple[int, int] | None = None  # None: not older than where the job comes from

    def __str__(self) -> str:
        tail = "-glibc{}.{}".format(*self.glibc) if self.glibc else ""
        return f"linux-{self.machine}{tail}"

    @property
    def runs_our_programs(self) -> bool:
        """The same machine and system; how old its C library may be is another question."""
        return (
            sys.platform == "linux"
            and MACHINES.get(this_machine.machine().lower()) == self.machine
            and own_glibc() is not None
        )

    @property
    def is_ours(self) -> bool:
        """What runs here runs there."""
        own = own_glibc()
        return self.runs_our_programs and (
            self.glibc is None or (own is not None and own <= self.glibc)
        )

    @property
    def uv_name(self) -> str:
        """As uv's `--python-platform` has it."""
        major, minor = self.glibc or MODERN
        known = [n for n in KNOWN_TO_UV if (2, n) <= (major, minor)] or [KNOWN_TO_UV[0]]
        return f"{self.machine}-manylinux_2_{known[-1]}"


def parse(text: str) -> Platform:
    found = FORM.match((text or DEFAULT).lower())
    machine = MACHINES.get(found[1]) if found else None
    if found is None or machine is None:
        raise UsageError(
            f"{text!r} is no platform that jobs can be packaged for.",
            hint="Write it as linux-x86_64, linux-aarch64 or linux-x86_64-glibc2.17.",
        )
    return Platform(machine, (int(found[2]), int(found[3])) if found[2] else None)


def own_glibc() -> tuple[int, int] | None:
    """None on a machine with another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) if name == "glibc" else None
    except (ValueError, OSError, AttributeError):
        return None


def ours() -> str:
    """This machine, in the words above, for those who explain a refusal."""
    machine = this_machine.machine().lower()
    glibc = own_glibc()
    libc = "-glibc{}.{}".format(*glibc) if glibc else ("-musl" if sys.platform == "linux" else "")
    return f"{sys.platform}-{MACHINES.get(machine, machine)}{libc}"
