import os
import subprocess
import sys
import textwrap
import threading

import pytest

from dromon.errors import PackagingError
from dromon.packaging import payload
from dromon.packaging.payload import dump, header, load_error, load_result, runner


class Member:
    """Runs payloads as an agent would: elsewhere, without Dromon and without cloudpickle."""

    def __init__(self, root):
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        self.record = root / "record"
        self.record.mkdir()
        self.runner = runner(str(root / "artifacts"))

    def run(self, data, *, python=sys.executable, **env):
        path = self.root / "payload"
        path.write_bytes(data)
        return subprocess.run(
            [python, "-S", os.path.join(self.runner, "run.py"), str(path)],
            cwd=self.work, capture_output=True, text=True,
            env={"PATH": os.defpath, "DROMON_MEMBER_DIR": str(self.record), **env},
        )  # fmt: skip

    def result(self):
        return load_result(str(self.record / "result"))

    def error(self):
        return load_error(str(self.record / "error"))


@pytest.fixture
def member(tmp_path):
    return Member(tmp_path)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A directory with modules, on this process's path."""
    root = tmp_path / "project"
    root.mkdir()
    known = set(sys.modules)

    def write(path, text):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return root

    write.root = root
    yield write
    for name in set(sys.modules) - known:
        if str(root) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_what_a_function_returns_comes_back(member):
    factor = 3

    def scaled(x, *, plus):
        return {"value": x * factor + plus}

    done = member.run(dump(scaled, (2,), {"plus": 1}))
    assert done.returncode == 0, done.stderr
    assert member.result() == {"value": 7}
    assert os.stat(member.record / "result").st_mode & 0o777 == 0o600
    assert sorted(os.listdir(member.record)) == ["result"]


def test_the_result_may_be_a_function_itself(member):
    assert member.run(dump(lambda: lambda x: x + 1)).returncode == 0
    assert member.result()(1) == 2


def test_what_a_function_raises_comes_back_with_its_traceback(member):
    def fails():
        print("before", flush=True)
        raise ValueError("the learning rate is negative")

    done = member.run(dump(fails))
    assert done.returncode == 1
    assert done.stdout == "before\n"
    raised = member.error()
    assert (raised.type, raised.message) == ("ValueError", "the learning rate is negative")
    assert isinstance(raised.exception, ValueError)
    assert raised.exception.args == ("the learning rate is negative",)
    assert "in fails" in raised.traceback
    assert "run.py" not in raised.traceback
    assert done.stderr == raised.traceback
    assert not (member.record / "result").exists()


def test_an_exception_that_cannot_be_rebuilt_still_tells(member):
    def fails():
        class Odd(Exception):
            def __init__(self, a, b):
                super().__init__("odd one")
                self.lock = threading.Lock()

        raise Odd(1, 2)

    assert member.run(dump(fails)).returncode == 1
    raised = member.error()
    assert raised.type.endswith("Odd")
    assert raised.message == "odd one"
    assert raised.exception is None


def test_a_result_that_cannot_be_sent_is_a_sentence(member):
    def streams():
        return (n for n in range(3))

    done = member.run(dump(streams))
    assert done.returncode == 1
    raised = member.error()
    assert "returned a generator, which cannot be sent back" in raised.message
    assert raised.message in done.stderr


def test_a_function_that_exits_gives_its_own_code(member):
    assert member.run(dump(lambda: sys.exit(3))).returncode == 3
    assert member.error().type == "SystemExit"
    assert member.run(dump(lambda: sys.exit(0))).returncode == 0


def test_what_cannot_be_shipped_is_refused_here():
    lock = threading.Lock()
    with pytest.raises(PackagingError, match="cannot be shipped") as failure:
        dump(lambda: lock)
    assert "inside the function" in failure.value.hint


def test_a_function_of_the_workdir_goes_by_name(member, project, monkeypatch):
    work = project("trainer.py", "def train(n):\n    return n + 1\n")
    monkeypatch.syspath_prepend(str(work))
    import trainer

    data = dump(trainer.train, (1,), workdir=str(work))
    assert header(data)["sources"] == {}
    (member.work / "trainer.py").write_text("def train(n):\n    return n + 100\n")
    done = member.run(data)
    assert done.returncode == 0, done.stderr
    assert member.result() == 101  # the snapshot's module, not a copy in the payload


def test_a_source_directory_of_the_workdir_is_on_the_members_path(member, project, monkeypatch):
    work = project("src/pkg_under_src/__init__.py", "def f():\n    return 'src'\n")
    monkeypatch.syspath_prepend(str(work / "src"))
    import pkg_under_src

    data = dump(pkg_under_src.f, workdir=str(work))
    assert header(data)["path"] == [".", "src"]
    os.symlink(work / "src", member.work / "src")
    assert member.run(data).returncode == 0
    assert member.result() == "src"


def test_a_function_of_neither_workdir_nor_packages_goes_by_value(member, project, monkeypatch):
    work = project("elsewhere_a.py", "import elsewhere_b\ndef f():\n    return elsewhere_b.g()\n")
    project("elsewhere_b.py", "K = 5\ndef g():\n    return K\n")
    monkeypatch.syspath_prepend(str(work))
    import elsewhere_a

    data = dump(elsewhere_a.f, workdir=str(member.work))
    assert "def f()" in header(data)["sources"]["elsewhere_a"]
    done = member.run(data)
    assert done.returncode == 0, done.stderr
    assert member.result() == 5
    import cloudpickle

    assert not cloudpickle.list_registry_pickle_by_value()


def test_a_function_of_the_main_script_goes_by_value(member, tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import sys, json\nsys.path[:0] = json.loads(sys.argv[1])\n"
        "from dromon.packaging.payload import dump\n"
        "def train(): return helper() * 2\n"
        "def helper(): return 21\n"
        "if __name__ == '__main__':\n"
        "    sys.stdout.buffer.write(dump(train, workdir=sys.argv[2]))\n"
    )
    import json

    made = subprocess.run(
        [sys.executable, str(script), json.dumps(sys.path), str(tmp_path)],
        capture_output=True, check=True,
    )  # fmt: skip
    assert member.run(made.stdout).returncode == 0
    assert member.result() == 42


def test_a_module_missing_in_the_member_is_said(member, project, monkeypatch):
    work = project("only_here.py", "def f():\n    return 1\n")
    monkeypatch.syspath_prepend(str(work))
    import only_here

    done = member.run(dump(only_here.f, workdir=str(work)))
    assert done.returncode == 1
    assert "cannot be loaded here" in member.error().message
    assert "only_here" in member.error().message


def test_another_python_is_told_apart(member):
    data = dump(lambda: 1)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    done = member.run(data.replace(f'"python": "{here}"'.encode(), b'"python": "3.6"', 1))
    assert done.returncode == 1
    assert done.stderr.startswith("The function was shipped from Python 3.6")
    assert f"runs Python {here}" in member.error().message


def test_processes_of_one_member_do_not_write_over_the_first(member):
    assert member.run(dump(lambda: "first"), LOCAL_RANK="0").returncode == 0
    assert member.run(dump(lambda: "second"), LOCAL_RANK="1").returncode == 0
    assert member.result() == "first"
    assert load_result(str(member.record / "result.1")) == "second"


def test_a_result_of_a_class_not_installed_here_is_explained(tmp_path):
    import pickle

    class Fake:
        def __reduce__(self):
            return (__import__, ("no_such_module_here",))

    (tmp_path / "result").write_bytes(pickle.dumps(Fake()))
    with pytest.raises(PackagingError, match="no_such_module_here"):
        load_result(str(tmp_path / "result"))


def test_the_runner_is_made_once(tmp_path):
    home = runner(str(tmp_path))
    written = os.stat(home).st_mtime_ns
    assert runner(str(tmp_path)) == home
    assert os.stat(home).st_mtime_ns == written
    assert os.listdir(tmp_path) == [os.path.basename(home)]
    assert sorted(os.listdir(home)) == ["cloudpickle", "run.py"]
    assert payload.runner(str(tmp_path / "other")).endswith(os.path.basename(home))
