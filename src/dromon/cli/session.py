"""A terminal attached to a job: its lines as they come, why it waits, Ctrl-C, how it ended.

Everything happens in one thread. What cannot wait for the next line (a wait worth explaining,
a Ctrl-C) is done inside the signal's handler: Python resumes the interrupted read afterwards, so
"continue" loses nothing. Leaving is an exception raised from there.

What a job is, and how it is submitted, is not known here.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque

from dromon.cli import words
from dromon.cli.console import Console, is_terminal
from dromon.cli.lines import LinePrinter
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from dromon.cli.calls import Api
    from dromon.engines.base import JobStatus

PATIENCE = 1.0  # seconds of waiting before the reason is worth a line
REFRESH = 2.0
REMEMBERED = 400  # lines; enough to know whether a verdict's last lines were just seen
QUESTION = "[s]top, [d]etach, [c]ontinue? "


class Detached(Exception):
    """The client leaves, the job goes on."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Interrupted(Exception):
    """Ctrl-C at the question itself."""


class Session:
    """Follows one job until it ends or the user leaves; `follow` returns the exit code."""

    def __init__(
        self,
        api: Api,
        id: str,
        number: int,
        *,
        single: bool = False,
        on: str = "local",
        is_known: bool = True,
    ) -> None:
        self._api = api
        self._id = id
        self._on = on
        self._called = words.called(id, number, on)
        self._ref = self._called if is_known else f"{id} --on {on}"
        self._console = Console()
        self._single = single  # known to have one member: nothing needs to be asked
        self._printer = LinePrinter(self._members, split=True)
        self._recent: deque[str] = deque(maxlen=REMEMBERED)
        self._began = time.monotonic()
        self._run = 0
        self._heard = False
        self._explained = False
        self._asking = False
        self._stops = 0

    def follow(self, *, tail: int | None = None, interrupted: bool = False) -> int:
        """`interrupted`: Ctrl-C was pressed before there was anything to ask about."""
        self._install()
        try:
            if interrupted:
                os.kill(os.getpid(), signal.SIGINT)
            for line in self._api.logs(self._id, follow=True, tail=tail, on=self._on):
                if not self._heard:
                    self._heard = True
                    self._console.clear()
                if line.run > self._run:
                    self._say_restart(line.run)
                self._recent.append(line.text)
                self._printer.print(line)
            status = self._end()
        except Detached as left:
            self._release()
            self._console.say(f"detached; job {self._called} goes on")
            self._suggest(None)
            return left.code
        except BrokenPipeError:
            self._release()
            self._console.say(f"the output was closed; job {self._called} goes on")
            raise
        self._release()
        self._conclude(status)
        return 130 if self._stops and status.state == "stopped" else words.exit_code(status)

    # What is said

    def _members(self) -> Sequence[str]:
        if self._single:
            return ()
        return [m.member for m in self._api.status(self._id, on=self._on).members]

    def _say_restart(self, run: int) -> None:
        if self._run:
            self._console.say(f"job {self._called} was restarted: run {run}")
        self._run = run

    def _end(self) -> JobStatus:
        return deque(self._api.watch(self._id, on=self._on), maxlen=1).pop()

    def _conclude(self, status: JobStatus) -> None:
        console, verdict = self._console, status.verdict or {}
        unseen = [line for line in verdict.get("last_lines", ()) if line not in self._recent]
        if unseen and status.state == "failed":
            for line in verdict["last_lines"]:
                console.line(console.paint("  | ", "dim") + line)
        sentence = f"{words.title(status)} {words.end_sentence(status)}"
        console.say(console.paint(sentence, words.end_colour(status)))
        if verdict.get("hint"):
            console.line(console.paint("hint:", "cyan") + f" {verdict['hint']}")
        self._suggest(status)

    def _suggest(self, status: JobStatus | None) -> None:
        suggest(self._console, status, self._ref)

    # Signals

    def _install(self) -> None:
        handlers = {
            signal.SIGINT: self._on_interrupt,
            signal.SIGTERM: self._on_leave,
            signal.SIGHUP: self._on_leave,
            signal.SIGALRM: self._on_patience,
        }
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup stays nohup
            del handlers[signal.SIGHUP]
        self._before = {each: signal.signal(each, to) for each, to in handlers.items()}
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def _release(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._console.clear()

    def _on_patience(self, number: int, frame: FrameType | None) -> None:
        if self._heard or self._asking or self._stops:
            return
        from dromon.errors import DromonError

        waited = format_duration(time.monotonic() - self._began)
        try:
            waiting = self._api.why(self._id, on=self._on)
            is_over = waiting is None and self._api.status(self._id, on=self._on).is_terminal
        except DromonError:
            return  # what is wrong will be said by the call that was interrupted
        if waiting is None:
            if self._explained and not self._heard and not is_over:
                self._console.say(f"job {self._called} is running after {waited}")
            return
        if not self._explained:
            self._console.say(f"job {self._called} waits: {waiting.sentence}")
        else:
            self._console.passing(f"dromon: waited {waited}: {waiting.sentence}")
        self._explained = True
        moving = waiting.reason == "preparing"  # a build has something new to say more often
        signal.setitimer(signal.ITIMER_REAL, REFRESH / 4 if moving else REFRESH)

    def _on_leave(self, number: int, frame: FrameType | None) -> None:
        raise Detached(128 + number)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._asking:
            raise Interrupted
        if self._stops or not (is_terminal(0) and self._console.is_terminal):
            self._stop()
            return
        self._asking = True
        try:
            answer = self._ask()
        except Interrupted:
            answer = "stop"
        finally:
            self._asking = False
        self._console.line(answer)
        if answer == "detach":
            raise Detached(0)
        if answer == "stop":
            self._stop()
        elif not self._heard:
            signal.setitimer(signal.ITIMER_REAL, REFRESH)

    def _ask(self) -> str:
        """One key: stop, detach or continue. A terminal that has gone means detach."""
        import termios

        answers = {b"s": "stop", b"d": "detach", b"c": "continue", b"": "detach", b"\x04": "detach"}
        key = b"?"
        self._console.clear()
        before = termios.tcgetattr(0)
        keys = termios.tcgetattr(0)
        keys[3] &= ~(termios.ICANON | termios.ECHO)  # one key, no Enter; Ctrl-C still interrupts
        try:
            termios.tcsetattr(0, termios.TCSADRAIN, keys)
            os.write(2, f"\ndromon: job {self._called}: {QUESTION}".encode())
            while key not in answers:
                key = os.read(0, 1).lower()
            self._asking = False  # answered: the next Ctrl-C is a new one
        except OSError:
            return "detach"
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        return answers[key]

    def _stop(self) -> None:
        from dromon.errors import DromonError

        self._stops += 1
        try:
            grace = None if self._stops == 1 else 0.0
            self._api.stop([self._id], grace=grace, on=self._on)
        except DromonError as error:
            self._console.error(error.message, error.hint)
            return
        if self._stops == 1:
            self._console.say(f"stopping job {self._called}; Ctrl-C again kills it now")
        else:
            self._console.say(f"killing job {self._called}")


def suggest(console: Console, status: JobStatus | None, ref: str) -> None:
    """The three commands likely next."""
    commands = " · ".join(words.next_commands(status, ref))
    console.line(console.paint(f"next: {commands}", "dim"))
