"""Libraries beside an interpreter, as conda installs them: built here, so a compiler is needed."""

import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from dromon.packaging import anatomy, elf
from dromon.packaging.linked import linked
from dromon.packaging.pieces import of_file

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture
def prefix(tmp_path):
    """A package's module needs libone, which needs libtwo; neither is the system's."""
    lib = tmp_path / "lib"
    lib.mkdir()

    def compile(name, text, *needs):
        (tmp_path / "x.c").write_text(text)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", lib / name, tmp_path / "x.c", f"-L{lib}",
             f"-Wl,-soname,{name},-rpath,{lib}", *(f"-l:{n}" for n in needs)],
            check=True,
        )  # fmt: skip

    compile("libtwo.so.2", "int two(void) { return 2; }")
    compile("libone.so.1", "int two(void); int one(void) { return two() - 1; }", "libtwo.so.2")
    compile("module.so", "int one(void); int answer(void) { return one() + 41; }", "libone.so.1")
    return tmp_path


def test_what_a_module_needs_of_the_interpreters_libraries_comes_along(prefix, tmp_path):
    source = prefix / "lib" / "module.so"
    of = replace(anatomy.interpreter(sys.executable, str(tmp_path)), prefix=str(prefix))
    module = of_file("lib/python3/site-packages/module.so", str(source), source.stat())
    found = {p.name: p for p in linked([module], of)}
    assert set(found) == {"lib/libone.so.1", "lib/libtwo.so.2"}
    moved = elf.read(found["lib/libone.so.1"].data)
    assert moved.needed[0] == "libtwo.so.2"
    assert moved.search == "$ORIGIN"


def test_a_library_that_is_shipped_already_is_not_taken_twice(prefix, tmp_path):
    source = prefix / "lib" / "module.so"
    one = prefix / "lib" / "libone.so.1"
    of = replace(anatomy.interpreter(sys.executable, str(tmp_path)), prefix=str(prefix))
    pieces = [
        of_file("site/module.so", str(source), source.stat()),
        of_file("site/module.libs/libone.so.1", str(one), one.stat()),
    ]
    assert [p.name for p in linked(pieces, of)] == ["lib/libtwo.so.2"]


def test_what_only_looks_like_a_library_is_passed_over(prefix, tmp_path):
    script = prefix / "lib" / "script.so"
    script.write_text("INPUT(libone.so)")
    (prefix / "lib" / "empty.so").write_text("")
    of = replace(anatomy.interpreter(sys.executable, str(tmp_path)), prefix=str(prefix))
    pieces = [
        of_file(f"site/{p.name}", str(p), p.stat()) for p in (script, prefix / "lib" / "empty.so")
    ]
    assert linked(pieces, of) == []
