"""The arbiter as a service of systemd: its unit, its account, and taking both in and out. Root's.

The unit lets members go on when the arbiter is restarted (`KillMode=process`), and has memory and
cpu handed down to it (`Delegate`), for the users' own cgroups (`fences`). It names no directories:
systemd would take them back for root at each start, and they are the account's. It comes after
those who know users and after NVIDIA's driver, and not after the whole boot: what installs it may
be part of that.
"""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import time

import dromon
from dromon.engines.local.client import START_LIMIT
from dromon.engines.local.shared import place
from dromon.engines.local.shared.control import ACCOUNT
from dromon.engines.local.shared.link import is_answered
from dromon.errors import EngineError, UsageError

UNIT = "/etc/systemd/system/dromon.service"
PLACE = "Have root install Dromon where everybody can read it, such as /opt or /usr/local."
FORM = """\
[Unit]
Description=Dromon: one queue for all users of this machine
After=remote-fs.target nss-user-lookup.target nvidia-persistenced.service

[Service]
ExecStart={python} -m dromon.cli daemon share --foreground
{environment}Restart=on-failure
RestartSec=1
KillMode=process
Delegate=yes

[Install]
WantedBy=multi-user.target
"""


def unit(environ: "os._Environ[str] | dict[str, str]") -> str:
    """The text of the unit, for the Dromon that runs now."""
    names = [name for name in ("DROMON_SITE", "DROMON_ACCOUNT", "PYTHONPATH") if environ.get(name)]
    lines = "".join(f'Environment="{name}={environ[name]}"\n' for name in names)
    return FORM.format(python=sys.executable, environment=lines)


def install() -> str:
    """Write it and have it started now and at every boot."""
    _only_root("install")
    for path in (sys.executable, os.path.dirname(dromon.__file__)):
        fit(path)
    account = os.environ.get("DROMON_ACCOUNT", ACCOUNT)
    try:
        pwd.getpwnam(account)
    except KeyError:
        _run("useradd", "--system", "--no-create-home", "--home-dir", "/var/lib/dromon",
             "--shell", "/usr/sbin/nologin", account)  # fmt: skip
    os.makedirs(os.path.dirname(UNIT), exist_ok=True)
    with open(UNIT, "w") as file:
        file.write(unit(os.environ))
    if not os.path.isdir("/run/systemd/system"):
        return (
            f"wrote {UNIT}; systemd does not run here, so nothing was started. In a container run "
            "`dromon daemon share --foreground` as root"
        )
    _run("systemctl", "daemon-reload")
    _run("systemctl", "enable", "dromon.service")
    _run("systemctl", "restart", "dromon.service")  # after an upgrade it runs already
    _until_answered(place.Place(place.PLACES[0], os.getuid()))
    return f"wrote {UNIT} and started it; `systemctl status dromon` shows it"


def _until_answered(at: place.Place) -> None:
    """Whoever types a command from here on is to find the arbiter."""
    until = time.monotonic() + START_LIMIT
    while not is_answered(at):
        if time.monotonic() > until:
            raise EngineError(
                "systemd has started the service, but no arbiter answers",
                hint="`journalctl -u dromon` says why.",
            )
        time.sleep(0.05)


def uninstall() -> str:
    _only_root("uninstall")
    if not os.path.exists(UNIT):
        raise UsageError(f"there is no {UNIT}: it is not installed")
    is_running = os.path.isdir("/run/systemd/system")
    if is_running:
        subprocess.run([sys.executable, "-m", "dromon.cli", "daemon", "unshare"], check=False)
        _run("systemctl", "disable", "--now", "dromon.service")
    os.unlink(UNIT)
    if is_running:
        _run("systemctl", "daemon-reload")
    return f"removed {UNIT}; running jobs go on, and each user's daemon decides for itself"


def _only_root(action: str) -> None:
    if os.getuid() != 0:
        raise UsageError(
            f"daemon {action} is root's to do",
            hint=f"sudo dromon daemon {action}; without root: `dromon daemon share`.",
        )


def fit(path: str) -> None:
    """Raises EngineError unless everybody can run what lies there, and root alone can change it:
    members are begun with it as their users, and root's own part runs it."""
    given = path
    path = os.path.realpath(path)
    while path != "/":
        found = os.stat(path)
        if found.st_mode & 0o005 != 0o005 and os.path.isdir(path):
            why = f"{path} is closed to others"
        elif found.st_uid != 0:
            why = f"{path} belongs to another user, who could change what root runs"
        elif found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
            why = f"others may write to {path}, and could change what root runs"
        else:
            path = os.path.dirname(path)
            continue
        raise EngineError(f"{given} cannot be used by a service of root's: {why}", hint=PLACE)


def _run(*words: str) -> None:
    if shutil.which(words[0]) is None:
        raise EngineError(f"there is no {words[0]} on this machine")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
