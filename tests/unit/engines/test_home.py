"""Where things lie, and when that place is no good."""

import os
from pathlib import Path

import pytest

from dromon.engines.home import Home, filesystem_of
from dromon.errors import StateDirectoryUnusable

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:35 / /home rw,relatime shared:20 - nfs4 server:/home rw,vers=4.2
41 40 0:36 / /home/ann/My\\040Disk rw,relatime - xfs /dev/vdb rw
"""


def test_the_nearest_mount_says_the_filesystem():
    assert filesystem_of("/var/lib", MOUNTS) == "ext4"
    assert filesystem_of("/home/bob/.local/state", MOUNTS) == "nfs4"
    assert filesystem_of("/home/ann/My Disk/state", MOUNTS) == "xfs"
    assert filesystem_of("/homely", MOUNTS) == "ext4"


def test_everything_made_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    home = Home(str(tmp_path / "state"))
    home.make()
    for path in (home.root, home.path("secrets"), home.runtime):
        assert os.stat(path).st_mode & 0o077 == 0


def test_a_deep_state_directory_still_has_room_for_a_socket(tmp_path: Path):
    home = Home(str(tmp_path / ("deep" * 30)))
    assert len(home.socket) < 108
    assert len(home.agents_socket) < 108


def test_a_place_that_cannot_be_written_is_refused_in_words(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StateDirectoryUnusable, match="cannot use the state directory"):
        Home(str(blocked / "state")).make()
