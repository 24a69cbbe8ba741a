"""Environments for machines other than this one, looked at without being run."""

import functools
import http.server
import io
import os
import platform
import shutil
import struct
import sys
import tarfile
import threading

import pytest

from dromon.errors import EnvironmentFailed, PackagingError, Refused
from dromon.packaging import elf, platforms, tarball
from dromon.packaging.archive import environment_archive, locked, runtime_archive
from dromon.packaging.environment import host_environment

SHORT = f"{sys.version_info[0]}.{sys.version_info[1]}"
OTHER, NUMBER = ("aarch64", 183) if platform.machine() == "x86_64" else ("x86_64", 62)
NODES = f"linux-{OTHER}"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


def foreign(data):
    """A program of this machine, said to be of the other."""
    return data[:18] + struct.pack("<H", NUMBER) + data[20:] if elf.is_elf(data) else data


@pytest.fixture(scope="module")
def python(cache, tmp_path_factory):
    """A tarball laid out like python-build-standalone's, with its links."""
    ours = runtime_archive(sys.executable, cache)
    path = tmp_path_factory.mktemp("site") / "python.tar.gz"
    with tarfile.open(ours.path) as source, tarfile.open(path, "w:gz", compresslevel=1) as out:
        for member in source:
            data = foreign(source.extractfile(member).read())
            if member.name in ("bin/python", "bin/python3", "dromon-python.json"):
                continue
            member.name = f"python/{member.name}"
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
        for name, aim in (
            ("bin/python3", f"python{SHORT}"),
            ("bin/python", "python3"),
            ("lib/libpython3.so", "../../../../etc/passwd"),
        ):
            link = tarfile.TarInfo(f"python/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, aim
            out.addfile(link)
        extra = tarfile.TarInfo("python/../../outside")
        extra.size = 1
        out.addfile(extra, io.BytesIO(b"x"))
    return str(path)


def asked(base, **request):
    return {"kind": "uv", "request": request, "base": str(base), "python_hint": sys.executable}


def programs(archive):
    """name -> machine of everything that runs or is loaded."""
    out = {}
    with tarfile.open(archive.path) as tar:
        for member in tar:
            assert member.isreg(), member.name
            data = tar.extractfile(member).read()
            if elf.is_elf(data):
                out[member.name] = elf.read(data).machine
    return out


def test_packages_and_python_are_of_the_nodes_platform(cache, python, tmp_path, registry):
    want = asked(tmp_path, packages=["markupsafe==3.0.2"])
    try:
        told = locked(want, cache, platform=NODES, python_tarball=python)
    except EnvironmentFailed as failure:
        registry(failure.message)
        raise
    assert told["lock"]["platform"] == f"{OTHER}-manylinux_2_28"
    assert told["lock"]["python"] == SHORT
    archive = environment_archive(told, cache, platform=NODES, python_tarball=python)
    found = programs(archive)
    assert set(found.values()) == {OTHER}
    site = f"lib/python{SHORT}/site-packages"
    assert [n for n in found if n.startswith(f"{site}/markupsafe/_speedups")]
    with tarfile.open(archive.path) as tar:
        names = tar.getnames()
    tag = sys.implementation.cache_tag
    assert f"{site}/markupsafe/__pycache__/__init__.{tag}.pyc" in names
    assert f"lib/python{SHORT}/__pycache__/uuid.{tag}.pyc" in names
    assert {"bin/python", "bin/python3", f"bin/python{SHORT}"} <= set(names)
    assert "lib/libpython3.so" not in names
    again = environment_archive(want, cache, platform=NODES, python_tarball=python)
    assert again == archive


def test_nothing_is_written_outside_of_where_it_is_unpacked(cache, python):
    found = tarball.unpacked(python, cache, platforms.parse(NODES))
    assert found.short == SHORT
    inside = os.path.dirname(os.path.dirname(found.prefix))
    assert not os.path.exists(os.path.join(inside, "outside"))
    assert not os.path.lexists(os.path.join(found.prefix, "lib", "libpython3.so"))


def test_the_interpreter_alone_is_also_the_sites(cache, python):
    archive = runtime_archive(sys.executable, cache, platform=NODES, python_tarball=python)
    assert set(programs(archive).values()) == {OTHER}
    # And what we made of it can be what a site names.
    again = runtime_archive(sys.executable, cache, platform=NODES, python_tarball=archive.path)
    assert again.digest == archive.digest


def test_without_a_tarball_the_job_is_refused_and_told_what_to_set(cache, tmp_path):
    with pytest.raises(Refused, match=f"The nodes are {NODES} and this machine is") as refusal:
        environment_archive(asked(tmp_path, packages=["six"]), cache, platform=NODES)
    assert "python_tarball" in refusal.value.hint
    assert "python-build-standalone" in refusal.value.hint


def test_the_callers_own_packages_do_not_go_to_another_platform(cache, python):
    with pytest.raises(Refused, match="do not run there") as refusal:
        environment_archive(
            host_environment({}, sys.executable), cache, platform=NODES, python_tarball=python
        )
    assert "environment:" in refusal.value.hint


def test_a_python_for_this_machine_does_not_do_for_another(cache, tmp_path):
    ours = runtime_archive(sys.executable, cache)
    with pytest.raises(Refused, match=f"is for .*, and the nodes are {NODES}"):
        runtime_archive(sys.executable, cache, platform=NODES, python_tarball=ours.path)


def test_another_version_than_the_sites_is_refused(cache, python, tmp_path):
    with pytest.raises(Refused, match=f"asks for 3.8, and the Python that the site has .* {SHORT}"):
        locked(asked(tmp_path, python="3.8"), cache, platform=NODES, python_tarball=python)


def test_nodes_with_an_old_c_library_are_told_before_anything_is_built(cache, tmp_path):
    old = f"linux-{platform.machine()}-glibc2.5"
    want = asked(tmp_path, python=SHORT)
    with pytest.raises(Refused, match=r"needs the GNU C library 2\.\d+, and the nodes are"):
        environment_archive(want, cache, platform=old)
    with pytest.raises(Refused, match=r"needs the GNU C library 2\.\d+, and the nodes are"):
        runtime_archive(sys.executable, cache, platform=old)


def test_it_is_fetched_over_http_once(cache, python, tmp_path):
    served = []

    class Files(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            served.append(self.path)

    handler = functools.partial(Files, directory=os.path.dirname(python))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        for _ in range(2):
            found = tarball.unpacked(f"{base}/python.tar.gz", cache, platforms.parse(NODES))
            assert found.machine == OTHER
        with pytest.raises(PackagingError, match="cannot be fetched"):
            tarball.unpacked(f"{base}/none.tar.gz", cache, platforms.parse(NODES))
        server.shutdown()
    assert served.count("/python.tar.gz") == 1


def test_a_cluster_s_own_addresses_are_read_by_whoever_knows_them(cache, python):
    def fetch(url, target):
        assert url == "hdfs://nn/python.tar.gz"
        shutil.copyfile(python, target)

    where = "hdfs://nn/python.tar.gz"
    with pytest.raises(Refused, match="no place that can be read from here"):
        tarball.unpacked(where, cache, platforms.parse(NODES))
    found = tarball.unpacked(where, cache, platforms.parse(NODES), fetch)
    assert found.machine == OTHER


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"not a tarball", "cannot be unpacked"), (None, "has no bin/python3.x")],
)
def test_what_is_no_python_is_said_with_its_name(cache, tmp_path, content, why):
    path = tmp_path / "odd.tar.gz"
    if content is None:
        with tarfile.open(path, "w:gz") as tar:
            info = tarfile.TarInfo("python/README")
            tar.addfile(info)
    else:
        path.write_bytes(content)
    with pytest.raises(PackagingError, match=f"odd.tar.gz {why}"):
        tarball.unpacked(str(path), cache, platforms.parse(NODES))
    with pytest.raises(Refused, match="No such file"):
        tarball.unpacked(str(tmp_path / "none"), cache, platforms.parse(NODES))
