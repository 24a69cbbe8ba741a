"""Root's arbiter as a service of a real systemd: it comes, stays, comes back, and goes."""

import pytest
from bench import eventually
from booted import Booted


@pytest.fixture
def installed(booted: Booted) -> Booted:
    booted("useradd", "--create-home", "--home-dir", "/tmp/ann", "ann")
    said = booted.dromon("daemon", "install")
    assert "started it" in said
    return booted


def main_process(machine: Booted) -> int:
    return int(machine("systemctl", "show", "dromon", "-p", "MainPID", "--value"))


def is_served(machine: Booted) -> bool:
    code, said = machine.run(machine.python, "-m", "dromon.cli", "nodes", user="ann")
    return code == 0 and "the arbiter run by dromon decides for everybody" in said


def comes_back(machine: Booted, before: int) -> None:
    eventually(lambda: main_process(machine) not in (0, before), "systemd does not begin it anew")
    eventually(lambda: is_served(machine), "nobody answers")


def has_work_done(machine: Booted, name: str) -> None:
    said = machine.dromon("run", "--cpus", "0.1", "--", "echo", f"done {name}", user="ann")
    assert f"done {name}" in said


def long_job(machine: Booted) -> str:
    """One that runs; the process it is."""
    machine.dromon("run", "-d", "--cpus", "0.1", "--name", "long", "--", "sleep", "600", user="ann")
    found = ""

    def is_running() -> bool:
        nonlocal found
        code, found = machine.run("pgrep", "-u", "ann", "-x", "sleep")
        return code == 0

    eventually(is_running, "it does not begin")
    return found


def test_it_is_there_once_it_is_installed_and_at_every_boot(installed: Booted):
    assert is_served(installed)
    assert installed("systemctl", "is-enabled", "dromon") == "enabled\n"
    has_work_done(installed, "at first")
    long_job(installed)
    assert "ann/long-" in installed.dromon("ps", "--all-users")


def test_members_go_on_when_it_is_restarted_upgraded_or_killed(installed: Booted):
    process = long_job(installed)
    for what in ("restart", "upgrade", "kill"):
        before = main_process(installed)
        if what == "restart":
            installed("systemctl", "restart", "dromon")
        elif what == "upgrade":
            installed.dromon("daemon", "install")
        else:
            installed("kill", "-KILL", str(before))
        comes_back(installed, before)
        has_work_done(installed, what)
        assert installed("pgrep", "-u", "ann", "-x", "sleep") == process
    assert installed("systemctl", "show", "dromon", "-p", "NRestarts", "--value") == "1\n"


def test_an_arbiter_that_falls_is_begun_anew(installed: Booted):
    process, before = long_job(installed), main_process(installed)
    installed("pkill", "-KILL", "-u", "dromon", "-f", "shared.process")
    comes_back(installed, before)
    has_work_done(installed, "after it")
    assert installed("pgrep", "-u", "ann", "-x", "sleep") == process


def test_uninstalled_it_is_gone_and_jobs_go_on(installed: Booted):
    process = long_job(installed)
    installed.dromon("daemon", "uninstall")
    assert installed.run("systemctl", "cat", "dromon")[0] != 0
    assert installed.run("ls", "/run/dromon")[0] != 0
    assert installed("pgrep", "-u", "ann", "-x", "sleep") == process
    has_work_done(installed, "alone")
    assert "shared" not in installed.dromon("daemon", "status", user="ann")
