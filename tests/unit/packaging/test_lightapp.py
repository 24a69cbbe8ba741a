import os
import subprocess
import sys
import zipfile

import pytest

from dromon.errors import EnvironmentFailed
from dromon.packaging import lightapp, uv

IMPORT_ALL = """
import importlib, sys, zipfile
sys.path.insert(0, sys.argv[1])
names = [n[:-3].replace("/", ".") for n in zipfile.ZipFile(sys.argv[1]).namelist()]
names = [n[: -len(".__init__")] if n.endswith(".__init__") else n for n in names]
for name in names:
    if name != "__main__":
        importlib.import_module(name)
import dromon
assert dromon.__file__.startswith(sys.argv[1]), dromon.__file__
assert callable(dromon.context)
print(len(names))
"""


def oldest():
    """A Python 3.9 of this machine, else None."""
    home = os.path.expanduser(os.environ.get("PYENV_ROOT", "~/.pyenv"))
    versions = os.path.join(home, "versions")
    for name in sorted(os.listdir(versions)) if os.path.isdir(versions) else ():
        if name.startswith("3.9."):
            return os.path.join(versions, name, "bin", "python")
    try:
        return uv.run(["python", "find", "--no-project", "3.9"], cwd="/", what="").strip()
    except EnvironmentFailed:
        return None


def test_the_same_rooms_make_the_same_bytes(tmp_path):
    one = lightapp.build(str(tmp_path / "one"), engine="yarn")
    two = lightapp.build(str(tmp_path / "two"), engine="yarn")
    assert one.digest == two.digest
    assert os.path.basename(one.path) == f"dromon-light-{one.digest[:12]}.pyz"
    with open(one.path, "rb") as a, open(two.path, "rb") as b:
        assert a.read() == b.read()
    written = os.stat(one.path).st_mtime_ns
    assert lightapp.build(str(tmp_path / "one"), engine="yarn") == one
    assert os.stat(one.path).st_mtime_ns == written
    assert os.listdir(tmp_path / "one") == [os.path.basename(one.path)]


@pytest.mark.parametrize(
    ("engine", "own"),
    [
        ("local", []),
        ("yarn", ["hadoop", "engines/yarn/am"]),
        ("kubernetes", ["engines/kubernetes/pod"]),
    ],
)
def test_only_the_light_rooms_an_engine_needs_are_in_it(tmp_path, engine, own):
    names = zipfile.ZipFile(lightapp.build(str(tmp_path), engine=engine).path).namelist()
    assert "__main__.py" in names
    assert "dromon/lifecycle/states.py" in names
    rooms = {"frameworks", "agent", "lifecycle", "coordinator", *own}
    around = [n for n in names if not any(n.startswith(f"dromon/{room}/") for room in rooms)]
    ours = {"__init__.py", "errors.py", "units.py", "__main__.py"}
    assert {os.path.basename(n) for n in around} == ours
    for room in rooms:
        assert f"dromon/{room}/__init__.py" in names


def test_with_bytecode_it_starts_without_compiling_anything(tmp_path):
    app = lightapp.build(str(tmp_path), engine="yarn", compiled=True)
    assert lightapp.build(str(tmp_path), engine="yarn", compiled=True) == app
    names = zipfile.ZipFile(app.path).namelist()
    assert "dromon/errors.py" in names  # for every other version of Python
    look = "import sys; sys.path[:0] = sys.argv[1:]; import dromon.errors as e; print(e.__file__)"
    words = [sys.executable, "-S", "-I", "-c", look, app.path]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{app.path}/dromon/errors.pyc"


@pytest.mark.parametrize("engine", ["yarn", "kubernetes"])
@pytest.mark.parametrize("which", ["this", "3.9"])
def test_every_module_of_it_imports_with_the_standard_library_alone(tmp_path, which, engine):
    python = sys.executable if which == "this" else oldest()
    if python is None:
        pytest.skip("no Python 3.9 on this machine")
    app = lightapp.build(str(tmp_path), engine=engine)
    done = subprocess.run(
        [python, "-S", "-I", "-c", IMPORT_ALL, app.path], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
