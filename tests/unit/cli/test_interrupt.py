"""Ctrl-C and other signals while attached: on a real terminal, and without one."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

CLIENT = """
import os, sys
from fake_api import *
from dromon.cli.main import main
job = FakeJob(make_status(), [line("hello")], endless=True)
job.stubborn = {stubborn}
api = FakeApi(job)
try:
    code = main(["run", "job.yaml"], api=api)
finally:
    try:
        stops = [call for call in api.calls if call[0] == "stop"]
        os.write(2, (repr(stops) + chr(10)).encode())  # unbuffered: nothing is left to be flushed
    except OSError:
        pass  # its terminal was closed
sys.exit(code)
"""


class Terminal:
    """A client on a pseudo-terminal, typed at like a person would."""

    def __init__(self, *, stubborn: bool = False) -> None:
        env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__), "NO_COLOR": "1"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            code = CLIENT.format(stubborn=stubborn)
            os.execve(sys.executable, [sys.executable, "-c", code], env)
        self.seen = ""

    def expect(self, pattern: str) -> None:
        end = time.monotonic() + 20
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"{pattern!r} not in {self.seen!r}"
            try:
                data = os.read(self.fd, 4096)
            except OSError:  # the client has gone
                data = b""
            assert data, f"{pattern!r} not in {self.seen!r}"
            self.seen += data.decode()

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def exit_code(self) -> int:
        self.expect(r"\[.*\]\r\n$")  # the calls, printed last
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


ASKS = r"\[s\]top, \[d\]etach, \[c\]ontinue\? $"
STOP = "[('stop', {'refs': ['unet3d-k3x9p2'], 'grace': None})]"


@pytest.fixture
def terminal():
    client = Terminal()
    client.expect("hello\r\n")
    return client


def test_ctrl_c_asks_and_stop_stops(terminal):
    terminal.type("\x03")
    terminal.expect(ASKS)
    terminal.type("s")
    assert terminal.exit_code() == 130
    assert STOP in terminal.seen
    assert "stopped" in terminal.seen


def test_detach_leaves_the_job_alone(terminal):
    terminal.type("\x03")
    terminal.expect(ASKS)
    terminal.type("d")
    assert terminal.exit_code() == 0
    assert "dromon: detached; job 41 goes on" in terminal.seen
    assert "dromon attach 41" in terminal.seen
    assert terminal.seen.endswith("[]\r\n")


def test_continue_goes_on_and_can_be_asked_again(terminal):
    terminal.type("\x03")
    terminal.expect(ASKS)
    terminal.type("xc")
    terminal.expect("continue\r\n")
    terminal.type("\x03")
    terminal.expect(r"continue\r\n(.|\n)*" + ASKS)
    terminal.type("d")
    assert terminal.exit_code() == 0
    assert terminal.seen.endswith("[]\r\n")


def test_ctrl_c_at_the_question_means_stop(terminal):
    terminal.type("\x03")
    terminal.expect(ASKS)
    terminal.type("\x03")
    assert terminal.exit_code() == 130
    assert STOP in terminal.seen


def test_a_third_ctrl_c_kills_what_will_not_stop():
    terminal = Terminal(stubborn=True)
    terminal.expect("hello\r\n")
    terminal.type("\x03")
    terminal.expect(ASKS)
    terminal.type("\x03")
    terminal.expect("Ctrl-C again kills it now")
    terminal.type("\x03")
    assert terminal.exit_code() == 130
    assert "'grace': None}), ('stop', {'refs': ['unet3d-k3x9p2'], 'grace': 0.0})]" in terminal.seen


def test_the_terminal_is_as_before_after_the_question(terminal):
    import termios

    before = termios.tcgetattr(terminal.fd)[3]
    terminal.type("\x03")
    terminal.expect(ASKS)
    assert termios.tcgetattr(terminal.fd)[3] != before
    terminal.type("c")
    terminal.expect("continue\r\n")
    terminal.type("\x03")  # a second question: the first one has surely been left by now
    terminal.expect(r"continue\r\n(.|\n)*" + ASKS)
    terminal.type("d")
    terminal.expect("goes on")
    assert termios.tcgetattr(terminal.fd)[3] == before
    terminal.exit_code()


def test_a_terminal_that_goes_away_is_a_detach():
    terminal = Terminal()
    terminal.expect("hello\r\n")
    os.close(terminal.fd)  # SIGHUP
    _, status = os.waitpid(terminal.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (signal.SIGINT, 130, STOP),
        (signal.SIGTERM, 143, "detached; job 41 goes on"),
        (signal.SIGHUP, 129, "detached; job 41 goes on"),
    ],
)
def test_without_a_terminal_an_interrupt_stops_and_other_signals_detach(sent, code, said):
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT.format(stubborn=False)],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"hello\n"
        process.send_signal(sent)
        err = process.stderr.read().decode()
        assert process.wait() == code
    assert said in err
