"""The unit of systemd."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dromon.engines.local.shared import service
from dromon.errors import EngineError


def test_the_unit_leaves_members_alone_and_keeps_what_dromon_needs():
    text = service.unit({"DROMON_SITE": "/etc/site.yaml", "HOME": "/root", "SECRET": "x"})
    lines = text.splitlines()
    assert "KillMode=process" in lines
    assert "Delegate=yes" in lines
    assert 'Environment="DROMON_SITE=/etc/site.yaml"' in lines
    assert "SECRET" not in text
    [command] = [line for line in lines if line.startswith("ExecStart=")]
    assert command.endswith("daemon share --foreground")


def test_what_root_runs_is_readable_by_all_and_changed_by_root_alone(tmp_path: Path):
    service.fit("/usr/bin")
    folder = tmp_path / "x"
    folder.mkdir()
    for mode in (0o700, 0o777):
        folder.chmod(mode)
        with pytest.raises(EngineError, match=r"closed to others|others may write|another user"):
            service.fit(str(folder))
    if os.getuid() == 0:
        folder.chmod(0o755)
        os.chown(folder, 65534, -1)
        with pytest.raises(EngineError, match=r"another user|closed to others"):
            service.fit(str(folder))


def test_systemd_has_nothing_to_say_against_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    (tmp_path / "dromon.service").write_text(service.unit({"DROMON_SITE": "/etc/dromon/site.yaml"}))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "dromon.service")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "dromon.service" not in done.stderr  # of other units of this machine it may
