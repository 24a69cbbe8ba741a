import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace

import pytest

from dromon.errors import PackagingError
from dromon.packaging import anatomy, runtime
from dromon.packaging.archive import runtime_archive

PYTHONS = list(
    dict.fromkeys(
        os.path.realpath(p) for p in (sys.executable, "/usr/bin/python3") if os.path.exists(p)
    )
)
# The C library's own: what a node is expected to have.
OF_NODES = {"libc", "libm", "libdl", "libpthread", "librt", "libutil", "libresolv"}
MODULES = "ssl, sqlite3, ctypes, zlib, lzma, bz2, hashlib, uuid, decimal, curses, readline"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", params=PYTHONS)
def home(request, cache, tmp_path_factory):
    """A Python as a node has it: unpacked by tar below a name with a space, not to be written to,
    met through a link."""
    archive = runtime_archive(request.param, cache)
    root = tmp_path_factory.mktemp("node")
    real = root / "file cache" / "17"
    real.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive.path, "-C", real], check=True)
    for directory, _, names in os.walk(real):
        for name in names:
            path = os.path.join(directory, name)
            os.chmod(path, os.stat(path).st_mode & 0o555)
        os.chmod(directory, 0o555)
    link = root / "environment"
    link.symlink_to(real)
    yield link
    for directory, _, _ in os.walk(real):
        os.chmod(directory, 0o755)


def run(home, *arguments, program="bin/python", cwd=None, env=None):
    done = subprocess.run(
        [home / program, *arguments], env=env or {}, cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_finds_itself_where_it_was_unpacked(home):
    found = run(home, "-c", "import sys; print(sys.prefix, sys.exec_prefix, sys.executable)")
    prefix, exec_prefix, executable = found.split(" ")
    assert prefix == exec_prefix == str(home)
    assert os.path.dirname(executable) == str(home / "bin")


@pytest.mark.parametrize("program", ["bin/python", "bin/python3"])
def test_every_form_of_starting_it_works(home, tmp_path, program):
    script = tmp_path / "script with space.py"
    script.write_text("import sys; print(sys.argv[1:])")
    assert run(home, "-c", "import sys; print(sys.argv[1:])", "a b", "", program=program) == (
        "['a b', '']"
    )
    assert run(home, "-m", "json.tool", "--help", program=program).startswith("usage:")
    assert run(home, "-S", "-c", "import ssl; print(1)", program=program) == "1"
    assert run(home, "-I", "-c", "import sqlite3; print(2)", program=program) == "2"
    assert run(home, script, "$x", "*", program=program) == "['$x', '*']"


def test_it_is_found_by_name_by_a_link_and_by_a_relative_path(home, tmp_path):
    ask = "import sys; print(sys.prefix)"
    (tmp_path / "link").symlink_to(home / "bin" / "python")
    (tmp_path / "hop").symlink_to("link")
    for command, cwd in (
        ([str(tmp_path / "hop")], None),
        (["./environment/bin/python"], home.parent),
        (["/bin/sh", "-c", 'python -c "$0"'], None),
        (["/bin/sh", "python"], home / "bin"),
    ):
        tail = [ask] if "-c" in command else ["-c", ask]
        done = subprocess.run(
            [*command, *tail], env={"PATH": str(home / "bin")}, cwd=cwd, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert os.path.realpath(done.stdout.strip()) == os.path.realpath(home)


def test_nothing_but_the_c_library_is_the_nodes_own(home):
    code = (
        f"import {MODULES}\n"
        "with open('/proc/self/maps') as file:\n"
        "    print('\\n'.join({x.split(None, 5)[5].strip() for x in file if '.so' in x}))"
    )
    libraries = run(home, "-c", code).splitlines()
    real = os.path.realpath(home)
    outside = [os.path.basename(x) for x in libraries if not x.startswith(real)]
    assert {name.split(".so")[0] for name in outside if not name.startswith("ld-")} <= OF_NODES
    assert any(x.startswith(real) for x in libraries)


def test_a_variable_of_the_node_does_not_lead_to_its_libraries(home):
    code = (
        "import ssl\n"
        "with open('/proc/self/maps') as file:\n"
        "    print([x.split(None, 5)[5] for x in file if 'libssl' in x][0])"
    )
    found = run(home, "-c", code, env={"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu:/usr/lib64"})
    assert found.startswith(os.path.realpath(home))


def test_children_are_the_same_python_and_inherit_no_variable(home, tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(
        "import json, multiprocessing, os, subprocess, sys\n"
        "def tell(queue):\n"
        "    queue.put([sys.prefix, sorted(os.environ)])\n"
        "if __name__ == '__main__':\n"
        "    own = 'import sys, ssl; print(sys.prefix)'\n"
        "    child = subprocess.check_output([sys.executable, '-c', own], text=True).strip()\n"
        "    spawn = multiprocessing.get_context('spawn')\n"
        "    queue = spawn.SimpleQueue()\n"
        "    process = spawn.Process(target=tell, args=(queue,))\n"
        "    process.start()\n"
        "    print(json.dumps([child, *queue.get()]))\n"
        "    process.join()\n"
    )
    child, spawned, variables = json.loads(run(home, script, env={"A": "1"}))
    assert child == spawned == str(home)
    assert not [name for name in variables if name.startswith(("LD_", "PYTHON"))]


def test_bytecode_is_there_and_its_source_is_not_looked_at(home):
    cached = run(home, "-c", "import json.decoder as module; print(module.__cached__)")
    with open(cached, "rb") as file:
        assert file.read(8)[4:] == b"\x01\0\0\0"


def test_an_archive_has_no_links_no_tests_and_is_small(cache):
    archive = runtime_archive(PYTHONS[0], cache)
    assert archive.size < 20_000_000
    with tarfile.open(archive.path) as tar:
        members = tar.getmembers()
    assert all(m.isreg() for m in members)
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, "", "")}
    assert len({m.mtime for m in members}) == 1
    names = [m.name for m in members]
    assert not [n for n in names if re.search(r"/(test|tests|idlelib|tkinter|site-packages)/", n)]
    tags = {n.split(".")[-2] for n in names if n.endswith(".pyc")}
    assert tags == {f"cpython-{sys.version_info[0]}{sys.version_info[1]}"}


@pytest.mark.parametrize(
    ("loader", "glibc", "words"),
    [
        ("/no/such/loader.so", "2.17", "this node has no /no/such/loader.so"),
        ("/bin/sh", "2.999", "needs the GNU C library 2.999 or newer; this node has 2."),
    ],
)
def test_a_node_with_another_c_library_is_told_so(tmp_path, loader, glibc, words):
    launcher = runtime.launchers("python3.11", loader, glibc, "x86_64")[0]
    (tmp_path / "python").write_bytes(launcher.data)
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run([tmp_path / "python"], env={}, capture_output=True, text=True)
    assert done.returncode == 126
    assert words in done.stderr


@pytest.mark.parametrize(("there", "given"), [(True, ""), (False, ""), (False, "/own")])
def test_certificates_are_looked_for_where_other_systems_have_them(tmp_path, there, given):
    known = [p for p in ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem")
             if os.path.exists(p)]  # fmt: skip
    if not known:
        pytest.skip("this machine has no certificates")
    place = tmp_path if there else tmp_path / "none"
    launcher = runtime.launchers("python3.11", "/bin/sh", "2.1", "x86_64", str(place))[0]
    (tmp_path / "python").write_bytes(launcher.data)
    (tmp_path / "python3.11").write_text('#!/bin/sh\necho "$SSL_CERT_FILE"\n')
    for name in ("python", "python3.11"):
        (tmp_path / name).chmod(0o755)
    env = {"SSL_CERT_FILE": given} if given else {}
    assert run(tmp_path, program="python", env=env) == (given or ("" if there else known[0]))


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (b"/lib/ld-musl-x86_64.so.1", "musl C library"),
        (b"/nix/glibc/ld-linux.so.2", "which nodes do not have"),
    ],
)
def test_a_python_that_nodes_could_not_start_is_refused(cache, tmp_path, loader, words):
    found = anatomy.interpreter(PYTHONS[0], cache)
    odd = tmp_path / "python"
    with open(found.binary, "rb") as file:
        data = file.read()
    usual = b"/lib64/ld-linux-x86-64.so.2"
    if usual not in data:
        pytest.skip("of another machine")
    odd.write_bytes(data.replace(usual, loader.ljust(len(usual), b"\0"), 1))
    with pytest.raises(PackagingError, match=words) as refusal:
        runtime.runtime(replace(found, binary=str(odd)))
    assert "python_tarball" in refusal.value.hint
