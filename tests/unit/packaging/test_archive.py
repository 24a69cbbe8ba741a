import hashlib
import json
import os
import subprocess
import sys
import tarfile
import threading
import venv

import pytest

from dromon.errors import EnvironmentFailed, PackagingError, Refused, UsageError
from dromon.packaging import anatomy
from dromon.packaging import archive as archives
from dromon.packaging.archive import code_archive, environment_archive, gc, locked
from dromon.packaging.environment import host_environment
from dromon.packaging.installed import listing
from dromon.packaging.snapshot import EMPTY, materialise

SHORT = f"python{sys.version_info[0]}.{sys.version_info[1]}"
SCRIPT = "import greeting, sys; print(greeting.TEXT, sys.argv[1:], sys.prefix)\n"


class Venv:
    """A virtual environment with a package, a script of it, and what does not travel."""

    def __init__(self, root):
        self.root = root
        venv.create(root, symlinks=True)
        self.python = str(root / "bin" / "python")
        self.site = root / "lib" / SHORT / "site-packages"
        self.write("greeting/__init__.py", "TEXT = 'ave'\n")
        self.write("greeting/data/words.txt", "ave\n")
        self.script("bin/greet", f"#!{self.python}\n{SCRIPT}")
        (root / "share").mkdir()
        (root / "share" / "greeting.conf").write_text("loud = no\n")
        self.write(
            "greeting-1.0.dist-info/RECORD",
            "greeting/__init__.py,,\n../../../bin/greet,,\n../../../share/greeting.conf,,\n"
            "../../../bin/shell,,\n../../../../../outside,,\n",
        )
        self.write("greeting-1.0.dist-info/METADATA", "Name: greeting\nVersion: 1.0\n")
        # As uv and pip write it where the path is long or has spaces.
        self.script(
            "bin/shell", f"#!/bin/sh\n'''exec' '{self.python}' \"$0\" \"$@\"\n' '''\n{SCRIPT}"
        )

    def write(self, name, text):
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def script(self, name, text):
        path = self.root / name
        path.write_text(text)
        path.chmod(0o755)

    def pack(self, cache, **options):
        return environment_archive(host_environment({}, self.python), str(cache), **options)


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def env(tmp_path):
    return Venv(tmp_path / "env")


@pytest.fixture(scope="module")
def packed(tmp_path_factory, shared_cache):
    """One environment packed, for tests that only look."""
    made = Venv(tmp_path_factory.mktemp("made") / "env")
    outside = made.root.parent / "outside"
    outside.mkdir()
    (outside / "far.py").write_text("")
    made.write("far.pth", f"{outside}\ngreeting/data\nimport sys\n")
    made.write("_editable_impl_mine.pth", f"{outside}\n")
    made.write("__editable__.yours-1.2.pth", "import __editable___yours_1_2_finder\n")
    made.write("__editable___yours_1_2_finder.py", "MAPPING = {}\n")
    made.write("broken.py", "def (:\n")
    return made, made.pack(shared_cache)


def unpack(archive, target):
    target.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive.path, "-C", target], check=True)
    return target


def names(archive):
    with tarfile.open(archive.path) as tar:
        return {m.name for m in tar}


def run(*command):
    done = subprocess.run(command, env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def collector(into):
    return lambda text, done, total: into.append((text, done, total))


def test_the_callers_environment_runs_elsewhere_with_its_scripts(packed, tmp_path):
    _, archive = packed
    home = unpack(archive, tmp_path / "sp ace" / "x")
    for script in ("greet", "shell"):
        assert run(home / "bin" / script, "a b") == f"ave ['a b'] {home}"
    assert run(home / "bin" / "python", "-c", "import greeting; print(greeting.TEXT)") == "ave"
    found = run(
        home / "bin" / "python", "-c",
        "from importlib.metadata import version; print(version('greeting'))",
    )  # fmt: skip
    assert found == "1.0"
    assert (home / "share" / "greeting.conf").read_text() == "loud = no\n"
    assert archive.python == ".".join(map(str, sys.version_info[:3]))


def test_what_leads_out_of_the_environment_stays_and_is_named(packed):
    made, archive = packed
    outside = str(made.root.parent / "outside")
    assert sorted(archive.notes) == [
        f"mine (installed editable) is outside the environment, so it is not in the archive: "
        f"{outside}",
        f"what far.pth names is outside the environment, so it is not in the archive: {outside}",
        "yours is installed editable, so it is not in the archive",
    ]
    found = names(archive)
    assert not [n for n in found if "editable" in n or "outside" in n]
    with tarfile.open(archive.path) as tar:
        (kept,) = [m for m in tar if m.name.endswith("/far.pth")]
        assert tar.extractfile(kept).read() == b"greeting/data\nimport sys\n"


def test_bytecode_is_made_for_what_has_none_and_what_does_not_compile_is_left(packed):
    _, archive = packed
    found = names(archive)
    tag = sys.implementation.cache_tag
    site = f"lib/{SHORT}/site-packages"
    assert f"{site}/greeting/__pycache__/__init__.{tag}.pyc" in found
    assert f"{site}/broken.py" in found
    assert f"{site}/__pycache__/broken.{tag}.pyc" not in found


def test_headers_for_compilers_on_a_node_come_along_where_there_are_any(packed):
    import sysconfig

    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    assert os.path.exists(header) == (f"include/{SHORT}/Python.h" in names(packed[1]))


def test_unchanged_is_found_and_nothing_is_done(packed, shared_cache):
    made, archive = packed
    before = os.stat(archive.path)
    steps = []
    assert made.pack(shared_cache, progress=collector(steps)) == archive
    assert steps == []
    assert os.stat(archive.path).st_ctime_ns == before.st_ctime_ns


def test_the_same_environment_makes_the_same_bytes(packed, tmp_path):
    made, archive = packed
    again = made.pack(tmp_path / "another cache")
    assert again.digest == archive.digest
    with open(again.path, "rb") as file:
        assert hashlib.sha256(file.read()).hexdigest() == again.digest
    assert os.path.getsize(again.path) == again.size


def test_whatever_changes_in_a_package_is_seen_without_reading_it(env, tmp_path):
    of = anatomy.interpreter(env.python, str(tmp_path))
    seen = [listing(of)]
    env.write("greeting/__init__.py", "TEXT = 'ova'\n")  # as long as before
    seen.append(listing(of))
    env.write("greeting/new.py", "")
    seen.append(listing(of))
    os.rename(env.site / "greeting" / "new.py", env.site / "greeting" / "newer.py")
    seen.append(listing(of))
    assert len(set(seen)) == 4
    env.write("greeting/__pycache__/new.cpython-311.pyc", "made of what was seen")
    assert listing(of) == seen[-1]


def test_two_at_once_build_once_and_count_bytes_up_to_all_of_them(env, tmp_path):
    steps = []
    made = []

    def build():
        made.append(env.pack(tmp_path / "cache", progress=collector(steps)))

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    assert len({a.digest for a in made}) == 1
    assert sum(text == "collecting the environment" for text, _, _ in steps) == 1
    counted = [(done, total) for text, done, total in steps if text == "packing the environment"]
    assert [d for d, _ in counted] == sorted(d for d, _ in counted)
    assert len({total for _, total in counted}) == 1
    assert counted[-1][0] == counted[-1][1] > 1_000_000
    assert len(counted) > 3


@pytest.mark.parametrize("harm", ["record", "archive", "cut"])
def test_what_is_not_whole_is_made_again(bench, tmp_path, harm):
    bench.write("train.py", "print('hello')\n")
    digest = bench.take().digest
    archive = code_archive(digest, bench.store, str(tmp_path))
    (record,) = (tmp_path / "archives").glob("*.json")
    if harm == "record":
        record.write_text(record.read_text()[:20])
    elif harm == "archive":
        os.unlink(archive.path)
    else:
        os.truncate(archive.path, archive.size - 1)
    assert code_archive(digest, bench.store, str(tmp_path)) == archive
    assert names(archive) == {"train.py"}


def test_an_interrupted_build_leaves_nothing(env, tmp_path):
    class Stopped(Exception):
        pass

    def stop(text, done, total):
        if done:
            raise Stopped

    with pytest.raises(Stopped):
        env.pack(tmp_path / "cache", progress=stop)
    left = [p.suffix for p in (tmp_path / "cache" / "archives").iterdir()]
    assert sorted(left) == [".json", ".lock"], "the interpreter's facts and the lock"
    assert (tmp_path / "cache" / "archives" / "interpreters.json").exists()


def test_code_travels_as_it_would_be_laid_out(bench, tmp_path):
    bench.write("train.py", "print('hello')\n")
    bench.write("bin/start", "#!/bin/sh\n", mode=0o755)
    bench.write("a" * 120 + "/" + "b" * 120 + "/long.txt", "long")
    bench.write("ünï.txt", "ü")
    (bench.work / "link").symlink_to("train.py")
    (bench.work / "empty").mkdir()
    digest = bench.take().digest
    archive = code_archive(digest, bench.store, str(tmp_path / "cache"))
    materialise(digest, bench.store, str(tmp_path / "laid out"))
    node = unpack(archive, tmp_path / "node")
    assert tree(node) == tree(tmp_path / "laid out")
    steps = []
    again = code_archive(digest, bench.store, str(tmp_path / "cache"), progress=collector(steps))
    assert again == archive
    assert steps == []


def tree(root):
    out = {}
    for directory, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(directory, name)
            inside = os.path.relpath(path, root)
            if os.path.islink(path):
                out[inside] = os.readlink(path)
            elif os.path.isdir(path):
                out[inside] = "directory"
            else:
                with open(path, "rb") as file:
                    out[inside] = (file.read(), os.stat(path).st_mode & 0o777)
    return out


def test_no_code_is_an_empty_archive(bench, tmp_path):
    archive = code_archive(EMPTY, bench.store, str(tmp_path))
    assert names(archive) == set()
    assert list(unpack(archive, tmp_path / "node").iterdir()) == []


def test_gc_keeps_what_is_named_and_frees_the_rest(bench, tmp_path):
    made = []
    for text in ("one", "two"):
        bench.write("train.py", text)
        made.append(code_archive(bench.take().digest, bench.store, str(tmp_path)))
    assert gc(str(tmp_path), {made[0].digest}) == made[1].size
    assert os.path.exists(made[0].path)
    assert not os.path.exists(made[1].path)
    assert gc(str(tmp_path), {made[0].digest}) == 0
    assert code_archive(bench.take().digest, bench.store, str(tmp_path)) == made[1]


def test_two_files_of_one_name_are_an_error(tmp_path):
    from dromon.packaging import pieces

    twice = [pieces.of_data("a", b"1"), pieces.of_data("a", b"2")]
    with open(tmp_path / "x", "wb") as out, pytest.raises(PackagingError, match="Two files"):
        pieces.write(twice, out)


def test_a_file_that_changes_while_it_is_read_is_said(tmp_path):
    from dromon.packaging import pieces

    source = tmp_path / "file"
    source.write_text("short")
    piece = pieces.of_file("file", str(source), os.stat(source))
    source.write_text("much longer")
    with open(tmp_path / "x", "wb") as out, pytest.raises(PackagingError, match="changed while"):
        pieces.write([piece], out)


def test_an_image_is_not_made_of_files(tmp_path):
    with pytest.raises(Refused, match="'image'"):
        environment_archive({"kind": "image", "image": "x"}, str(tmp_path))


def test_a_platform_nobody_knows_is_said(env, tmp_path):
    with pytest.raises(UsageError, match="'solaris-sparc' is no platform"):
        env.pack(tmp_path, platform="solaris-sparc")


def test_a_lock_becomes_an_archive_and_is_found_by_it(tmp_path, shared_cache, registry):
    asked = {
        "kind": "uv", "request": {"packages": ["six==1.16.0"]}, "base": str(tmp_path),
        "python_hint": sys.executable,
    }  # fmt: skip
    try:
        told = locked(asked, str(shared_cache))
    except EnvironmentFailed as failure:
        registry(failure.message)
        raise
    assert told["lock"]["text"] == "six==1.16.0\n"
    json.dumps(told)  # it goes on record
    archive = environment_archive(told, str(shared_cache))
    home = unpack(archive, tmp_path / "node")
    assert run(home / "bin" / "python", "-c", "import six; print(six.__version__)") == "1.16.0"
    steps = []
    assert environment_archive(told, str(shared_cache), progress=collector(steps)) == archive
    assert steps == []
    assert environment_archive(asked, str(shared_cache)) == archive


def test_nothing_is_made_for_a_python_that_went_away(tmp_path):
    gone = {"kind": "host", "python": str(tmp_path / "gone" / "bin" / "python")}
    with pytest.raises(EnvironmentFailed, match="does not say where its library is"):
        environment_archive(gone, str(tmp_path))
    assert archives.gc(str(tmp_path), set()) == 0
