import platform
import sys

import pytest

from dromon.errors import UsageError
from dromon.packaging.platforms import Platform, ours, own_glibc, parse

MACHINE = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}[platform.machine()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Platform("x86_64")),
        ("linux-x86_64", Platform("x86_64")),
        ("Linux-AMD64", Platform("x86_64")),
        ("linux-arm64", Platform("aarch64")),
        ("linux-aarch64-glibc2.28", Platform("aarch64", (2, 28))),
    ],
)
def test_a_platform_is_read(text, expected):
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@pytest.mark.parametrize("text", ["windows-x86_64", "linux", "linux-riscv64", "linux-x86_64-musl"])
def test_what_is_none_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="is no platform") as refusal:
        parse(text)
    assert "linux-aarch64" in refusal.value.hint


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("linux-x86_64", "x86_64-manylinux_2_28"),
        ("linux-aarch64-glibc2.17", "aarch64-manylinux_2_17"),
        ("linux-x86_64-glibc2.30", "x86_64-manylinux_2_28"),
        ("linux-x86_64-glibc2.12", "x86_64-manylinux_2_17"),
        ("linux-x86_64-glibc2.99", "x86_64-manylinux_2_40"),
    ],
)
def test_uv_is_asked_for_packages_no_newer_than_the_nodes(text, name):
    assert parse(text).uv_name == name


@pytest.mark.skipif(sys.platform != "linux" or own_glibc() is None, reason="needs GNU/Linux")
def test_nodes_with_an_older_c_library_run_our_programs_but_not_all_of_them():
    major, minor = own_glibc()
    assert Platform(MACHINE).is_ours
    assert Platform(MACHINE, (major, minor)).is_ours
    assert Platform(MACHINE, (major, minor + 1)).is_ours
    older = Platform(MACHINE, (major, minor - 1))
    assert older.runs_our_programs
    assert not older.is_ours
    other = Platform("aarch64" if MACHINE == "x86_64" else "x86_64")
    assert not other.runs_our_programs
    assert ours() == f"linux-{MACHINE}-glibc{major}.{minor}"
