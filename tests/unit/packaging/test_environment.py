import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from dromon.errors import EnvironmentFailed
from dromon.packaging import uv
from dromon.packaging.environment import (
    Lock,
    build,
    gc,
    host_environment,
    is_built,
    python_of,
    resolve,
)

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for all: what a test does not build again costs nothing."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def six(cache, tmp_path_factory, registry):
    """The lock of one small package; skips where no registry answers."""
    work = str(tmp_path_factory.mktemp("work"))
    try:
        return resolve({"packages": ["six==1.16.0"]}, work, cache, sys.executable)
    except EnvironmentFailed as failure:
        registry(failure.message)
        raise


def run(python, code):
    return subprocess.run([python, "-c", code], capture_output=True, text=True)


def test_packages_become_a_lock_with_exact_versions(six, cache, tmp_path):
    assert six.text == "six==1.16.0\n"
    assert six.python.startswith(HERE)
    assert len(six.digest) == 64
    again = resolve({"packages": ["six==1.16.0"]}, str(tmp_path), cache, sys.executable)
    assert again.digest == six.digest
    other = resolve({"packages": ["six==1.15.0"]}, str(tmp_path), cache, sys.executable)
    assert other.digest != six.digest


def test_a_built_environment_has_what_was_asked_with_bytecode_and_nothing_else(six, cache):
    steps = []
    python = build(six, cache, steps.append)
    done = run(python, "import six, sys; print(six.__version__, six.__cached__, sys.prefix)")
    version, cached, prefix = done.stdout.split()
    assert version == "1.16.0"
    assert os.path.exists(cached)
    assert prefix == os.path.dirname(os.path.dirname(python))
    assert run(python, "import pytest").returncode == 1
    assert any("Installed 1 package" in step for step in steps)


def test_a_second_build_does_nothing(six, cache):
    python = build(six, cache)
    marked = os.stat(os.path.dirname(python)).st_ctime_ns
    steps = []
    assert build(six, cache, steps.append) == python == python_of(six.digest, cache)
    assert steps == []
    assert os.stat(os.path.dirname(python)).st_ctime_ns == marked


def test_an_interrupted_build_is_done_again(six, cache):
    python = build(six, cache)
    home = os.path.dirname(os.path.dirname(python))
    os.unlink(os.path.join(home, "complete"))
    stray = os.path.join(home, "stray")
    with open(stray, "w") as file:
        file.write("left by a build that was killed")
    assert not is_built(six.digest, cache)
    assert build(six, cache) == python
    assert not os.path.exists(stray)
    assert run(python, "import six").returncode == 0


def test_threads_asking_at_once_build_once(six, tmp_path):
    said = {}

    def ask(n):
        said[n] = []
        build(six, str(tmp_path), said[n].append)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    builders = [n for n, steps in said.items() if any("Installed" in s for s in steps)]
    assert len(builders) == 1
    waiters = [n for n, steps in said.items() if any("Waiting for another" in s for s in steps)]
    assert set(waiters) <= set(said) - set(builders)
    assert is_built(six.digest, str(tmp_path))


BUILD = """
import json, sys
from dromon.packaging.environment import Lock, build
build(Lock(**json.loads(sys.argv[1])), sys.argv[2], lambda step: print(step, flush=True))
"""


def build_elsewhere(lock, cache, **environ):
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, json.dumps(lock.to_json()), str(cache)],
        env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_processes_asking_at_once_build_once(six, tmp_path):
    builders = [build_elsewhere(six, tmp_path) for _ in range(2)]
    said = [builder.communicate(timeout=60)[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert sum("Installed 1 package" in text for text in said) == 1


def test_a_builder_that_is_killed_leaves_the_lock_to_its_uv_until_that_has_ended(six, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as registry:  # one that never answers
        index = f"http://127.0.0.1:{registry.getsockname()[1]}/simple"
        builder = build_elsewhere(
            six, tmp_path / "cache", UV_DEFAULT_INDEX=index, UV_NO_CACHE="1", UV_NO_CONFIG="1",
            UV_HTTP_RETRIES="0", UV_FIND_LINKS="", no_proxy="127.0.0.1", NO_PROXY="127.0.0.1",
        )  # fmt: skip
        registry.settimeout(60)
        asked, _ = registry.accept()
        builder.kill()
        builder.communicate()
        told = threading.Event()
        thread = threading.Thread(
            target=build, args=(six, str(tmp_path / "cache"), lambda s: "Wait" in s and told.set())
        )
        thread.start()
        assert told.wait(30)
        assert not is_built(six.digest, str(tmp_path / "cache"))
        asked.close()
    thread.join(60)
    assert run(python_of(six.digest, str(tmp_path / "cache")), "import six").returncode == 0


def test_whoever_waits_is_told(six, tmp_path):
    home = tmp_path / "environments"
    home.mkdir()
    held = open(home / f"{six.digest}.lock", "w")  # noqa: SIM115
    fcntl.flock(held, fcntl.LOCK_EX)
    told = threading.Event()
    thread = threading.Thread(
        target=build, args=(six, str(tmp_path), lambda s: "Waiting" in s and told.set())
    )
    thread.start()
    try:
        assert told.wait(30)
        assert not is_built(six.digest, str(tmp_path))
    finally:
        held.close()
        thread.join()
    assert is_built(six.digest, str(tmp_path))


def test_an_unknown_package_is_refused_in_uvs_own_words(six, cache, tmp_path):
    request = {"packages": ["dromon-no-such-package-zzz"]}
    with pytest.raises(EnvironmentFailed) as failure:
        resolve(request, str(tmp_path), cache, sys.executable)
    message = failure.value.message
    assert "dromon-no-such-package-zzz was not found" in message
    assert "\x1b" not in message
    assert "Traceback" not in message
    assert failure.value.hint


def test_versions_that_exclude_each_other_are_refused(six, cache, tmp_path):
    with pytest.raises(EnvironmentFailed, match="unsatisfiable"):
        resolve({"packages": ["six==1.16.0", "six==1.15.0"]}, str(tmp_path), cache, sys.executable)


def test_a_failed_build_says_why_and_leaves_nothing_that_looks_whole(six, tmp_path):
    broken = replace(six, text="six==99.99\n", digest="f" * 64)
    with pytest.raises(EnvironmentFailed, match="could not be built") as failure:
        build(broken, str(tmp_path))
    assert "six==99.99" in failure.value.message
    assert not is_built(broken.digest, str(tmp_path))


def test_a_requirements_file_is_resolved_and_its_indexes_kept(six, cache, tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "requirements.txt").write_text(
        f"--find-links {tmp_path}/wheels\nsix<1.17 # comment\niniconfig==2.0.0\n"
    )
    lock = resolve({"requirements": "requirements.txt"}, str(tmp_path), cache, sys.executable)
    assert lock.text.splitlines() == [
        f"--find-links {tmp_path}/wheels", "iniconfig==2.0.0", "six==1.16.0",
    ]  # fmt: skip
    assert run(build(lock, cache), "import six, iniconfig").returncode == 0


def test_a_requirements_file_that_includes_another_is_resolved_anew(six, cache, tmp_path):
    (tmp_path / "r.txt").write_text("-r base.txt\n")
    (tmp_path / "base.txt").write_text("six==1.16.0\n")
    request = {"requirements": "r.txt"}
    assert "1.16" in resolve(request, str(tmp_path), cache, sys.executable).text
    (tmp_path / "base.txt").write_text("six==1.15.0\n")
    assert "1.15" in resolve(request, str(tmp_path), cache, sys.executable).text


def test_a_uv_lock_is_taken_without_the_project_itself(six, cache, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.9"\n'
        'dependencies = ["six==1.16.0"]\n[dependency-groups]\ndev = ["iniconfig"]\n'
    )
    uv.run(["lock"], cwd=str(tmp_path), what="lock")
    before = (tmp_path / "uv.lock").read_bytes()
    lock = resolve({"lock": "uv.lock"}, str(tmp_path), cache, sys.executable)
    assert [line for line in lock.text.splitlines() if "==" in line] == ["six==1.16.0 \\"]
    assert "mine" not in lock.text
    assert "--hash=sha256:" in lock.text
    assert (tmp_path / "uv.lock").read_bytes() == before
    assert not (tmp_path / ".venv").exists()
    assert run(build(lock, cache), "import six").returncode == 0
    pinned = resolve({"pyproject": "pyproject.toml"}, str(tmp_path), cache, sys.executable)
    assert pinned.text == "six==1.16.0\n"


def test_a_requirements_style_lock_is_taken_as_it_is(cache, tmp_path):
    text = "# mine\nsix==1.16.0  # pinned\n"
    (tmp_path / "requirements.lock").write_text(text)
    lock = resolve({"lock": "requirements.lock"}, str(tmp_path), cache, sys.executable)
    assert lock.text == text


@pytest.mark.parametrize(
    ("request_", "files", "said"),
    [
        ({"lock": "missing.lock"}, {}, "missing.lock does not exist"),
        ({"requirements": "r.txt"}, {}, "r.txt does not exist"),
        ({"requirements": "r.txt"}, {"r.txt": b"\xff\xfe\x00"}, "not UTF-8"),
        ({"lock": "Pipfile.lock"}, {"Pipfile.lock": b'{"_meta": {}}'}, "of no known kind"),
        ({"lock": "poetry.lock"}, {"poetry.lock": b"[[package]]\n"}, "of no known kind"),
        ({"lock": "r.lock"}, {"r.lock": b"-e .\n"}, "editable"),
        ({"packages": ["not a requirement !!"]}, {}, "could not be resolved"),
        ({"lock": "uv.lock"}, {"uv.lock": b"junk"}, "uv.lock cannot be used"),
    ],
)
def test_requests_that_make_no_sense_are_refused(cache, tmp_path, request_, files, said):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(EnvironmentFailed, match=said):
        resolve(request_, str(tmp_path), cache, sys.executable)


def test_a_python_that_is_not_here_is_refused_with_those_that_are(cache, tmp_path):
    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    with pytest.raises(EnvironmentFailed, match=r"no Python 3\.99") as failure:
        resolve({"python": "3.99"}, str(tmp_path), cache, sys.executable, environ=environ)
    assert f"{HERE}." in failure.value.hint


def test_the_callers_virtual_environment_does_not_leak_in(six, cache, tmp_path):
    environ = {**os.environ, "VIRTUAL_ENV": "/nonexistent", "PYTHONPATH": "/nonexistent"}
    lock = resolve({"python": HERE}, str(tmp_path), cache, sys.executable, environ=environ)
    assert lock.text == ""
    python = build(lock, cache, environ=environ)
    assert run(python, "import six").returncode == 1


def test_gc_takes_what_is_not_kept_and_not_being_built(six, tmp_path):
    cache = str(tmp_path)
    bare = replace(six, text="", digest="a" * 64)
    kept = replace(six, text="", digest="b" * 64)
    build(bare, cache)
    build(kept, cache)
    assert gc(cache, {kept.digest}) > 0
    assert sorted(os.listdir(tmp_path / "environments")) == [kept.digest, f"{kept.digest}.lock"]
    assert is_built(kept.digest, cache)
    assert gc(str(tmp_path / "nothing"), set()) == 0


def test_a_lock_can_be_put_on_record():
    lock = Lock("six==1.16.0\n", "d" * 64, "3.11.7", "/usr/bin/python3", "/work")
    assert Lock(**lock.to_json()) == lock


def test_the_host_environment_is_the_callers_own(tmp_path):
    def interpreter(path, *, config=None, conda=None):
        path = tmp_path / path
        (path / "bin").mkdir(parents=True)
        (path / "bin/python").symlink_to(sys.executable)
        if config:
            (path / "pyvenv.cfg").write_text(config)
        if conda:
            (path / "conda-meta").mkdir()
            (path / "conda-meta" / f"python-{conda}-h1_0.json").write_text("{}")
        return str(path)

    venv = interpreter("venv", config="home = /x\nversion_info = 3.12.1\n")
    conda = interpreter("conda", conda="3.10.4")
    both = {"VIRTUAL_ENV": venv, "CONDA_PREFIX": conda, "PATH": os.defpath}
    assert host_environment(both) == {
        "kind": "host", "python": f"{venv}/bin/python", "version": "3.12.1",
    }  # fmt: skip
    assert host_environment({"CONDA_PREFIX": conda})["version"] == "3.10.4"
    gone = {"VIRTUAL_ENV": str(tmp_path / "gone"), "PATH": f"{conda}/bin"}
    assert host_environment(gone)["python"] == f"{conda}/bin/python"
    nothing = {"PATH": str(tmp_path)}
    assert host_environment(nothing)["python"] == sys.executable
    assert host_environment(nothing)["version"].startswith(HERE)


def test_a_wrapper_script_is_asked_for_its_version(tmp_path):
    wrapper = tmp_path / "python3"
    wrapper.write_text(f'#!/bin/sh\necho x >> {tmp_path}/asked\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    for _ in range(3):
        found = host_environment({"PATH": f"{tmp_path}:{os.defpath}"})
        assert found["python"] == str(wrapper)
        assert found["version"] == ".".join(map(str, sys.version_info[:3]))
    assert (tmp_path / "asked").read_text() == "x\n"
