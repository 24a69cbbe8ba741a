import shutil
import sys

import pytest

from dromon.errors import EnvironmentFailed
from dromon.packaging import anatomy


def test_an_interpreter_is_asked_once(tmp_path):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    found = anatomy.interpreter(str(link), str(tmp_path))
    places = tmp_path / "archives" / "interpreters.json"
    written = places.stat().st_mtime_ns
    assert anatomy.interpreter(str(link), str(tmp_path)) == found
    assert places.stat().st_mtime_ns == written
    places.write_text("{")  # as a crash might leave it
    assert anatomy.interpreter(str(link), str(tmp_path)) == found


def test_what_is_no_python_is_said(tmp_path):
    false = shutil.which("false")
    with pytest.raises(EnvironmentFailed, match="does not say where its library is"):
        anatomy.interpreter(false, str(tmp_path))
    with pytest.raises(EnvironmentFailed, match="No such file"):
        anatomy.interpreter(str(tmp_path / "python"), str(tmp_path))
