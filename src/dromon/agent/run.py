"""One run of the member: from the barrier to its exit record. A state machine over `Loop`.

    ready -> running -> draining -> exited

It is told `start` and `stop`, and hears of ended children; it tells `say` what the coordinator
must know. Whether and when to start or stop is not decided here.
"""

import json
import os
import select
import signal
import time
from typing import Callable, Dict, List, Mapping, Optional, Tuple, Union

from dromon import frameworks
from dromon.agent import claim, command, environment, exitrecord, process
from dromon.agent.capture import QUIET, Capture
from dromon.agent.files import read_small, write_small
from dromon.agent.frames import Message
from dromon.agent.logfile import LogFile
from dromon.agent.loop import READ, Loop
from dromon.agent.plan import AgentPlan
from dromon.agent.ports import Ports
from dromon.agent.record import Record
from dromon.agent.samples import Samples
from dromon.agent.saved import Saved
from dromon.frameworks.world import World
from dromon.lifecycle import verdict
from dromon.lifecycle.verdict import Exit

READY, RUNNING, DRAINING, EXITED = "ready", "running", "draining", "exited"

SHORT = 0.25  # of one that ends sooner and says nothing, nobody hears that it had started
MEMORY_SAMPLE = 1.0
SAVED_LOOK = 2.0
LEFTOVER_GRACE = 1.0  # for what outlives the main process
SIBLING_GRACE = 5.0  # for the other processes of a member when one has failed
STRANGER_WAIT = 1.0  # for the end of a pipe that somebody outside the tree holds open
DISK_PATIENCE = 30.0  # for a disk that makes no progress at the very end
LAST_LINES = 20
SEEN_LINES = 200  # searched for a traceback
BUSY = 0.002  # a pipe is read at most every so often, unless there is much in it
MUCH = 16 * 1024


class Run:
    def __init__(self, plan: AgentPlan, loop: Loop, say: Callable[[Message], None]) -> None:
        self.plan = plan
        self.record = Record(plan.record)
        self.directory = self.record.run(plan.member, plan.run)
        self.phase = READY if plan.run else EXITED  # run 0: the first is still to be given
        self.exit: Optional[Exit] = None
        self._loop = loop
        self._say = say
        self._ports: Optional[Ports] = None
        self._log = LogFile(self.record.log(plan.member, plan.run))
        self._recorded = False
        self._capture: Optional[Capture] = None
        self._rank: Optional[int] = None
        self._saved = Saved(self.directory, None)
        self._started = 0.0
        self._pids: List[int] = []
        self._alive: Dict[int, int] = {}  # pid -> process number
        # Our copies of what it writes into. While we have them the end of a pipe is no news, and a
        # member's end wakes us once, not three times.
        self._written: List[int] = []
        self._ended: Optional[process.Ended] = None  # the first that failed, else the last
        self._read_at: Dict[int, float] = {}
        self._stop_cause = ""
        self._over = ""  # what was over which limit, when we killed for it
        self._kill_at = float("inf")
        self._killed = False
        self._swept = False
        self._backlog = 0
        self._samples = Samples(plan.cgroups or ((plan.inside,) if plan.inside else ()))

    @property
    def state(self) -> Message:
        """What a coordinator that has just met us must hear."""
        run = self.plan.run
        if self.exit is not None:
            return {"op": "exited", "run": run, "exit": self.exit.to_json()}
        if self.phase == READY:
            ports = self._ports.numbers if self._ports else ()
            return {"op": "ready", "run": run, "host": self.plan.host, "ports": list(ports)}
        return {"op": "started", "run": run, "pid": self._pids[0] if self._pids else 0}

    def prepare(self, trouble: str = "") -> bool:
        """Claim the run and reserve its ports; False when another agent has it. With `trouble`
        it is over before it began."""
        try:
            _make_directory(self.directory)
            if not claim.take(self.directory):
                return False
            if trouble:
                self._finish(Exit(cause=verdict.INTERNAL, message=trouble))
                return True
            self._ports = Ports(self.plan.ports)
        except OSError as error:
            self._finish(Exit(cause=verdict.INTERNAL, message=f"cannot prepare: {error}"))
        return True

    @property
    def is_clean(self) -> bool:
        """It is over, recorded, and nothing of it is still being written."""
        return self._recorded and (self._capture is None or self._capture.done)

    # ---- start ----------------------------------------------------------------------------------

    def start(self, world: World) -> None:
        if self.phase != READY:  # said again after a reconnect
            return
        plan = self.plan
        member = world.member(plan.role, plan.index)
        self._rank = member.rank
        self._saved = Saved(self.directory, None if member.rank else self.record.checkpoints)
        self._started = time.time()
        directory = self.record.world(plan.attempt)
        try:
            secrets = _read_secrets(plan.secrets)
            self._write_files(directory, frameworks.files(world, member))
        except (OSError, ValueError) as error:
            self._finish(self._failed_start(None, verdict.INTERNAL, f"cannot prepare: {error}"))
            return
        self._capture = Capture(self._log.append, plan.buffer, secrets.values(), self._loop.wake)
        variables = environment.member_variables(plan, world, member)
        self._samples.begin(gpus=member.gpus > 0)
        self.phase = RUNNING
        for number in range(plan.processes):
            theirs = frameworks.environment(world, member, number, directory)
            env = environment.merge(plan.env, {}, secrets, theirs, variables)
            words = frameworks.command(world, member, number, plan.command, directory)
            failed = self._spawn(number, words, env)
            if failed is not None:
                self._abandon(failed)
                return
        self._loop.after("started", SHORT, self._tell_started)
        self._loop.after("beat", self.plan.beat, self._beat)
        self._loop.after("saved", SAVED_LOOK, self._look_for_saved)
        self._loop.after("oom", 1.0, self._samples.note_machine)
        if plan.memory:
            self._loop.after("memory", MEMORY_SAMPLE, self._watch_memory)

    def _tell_started(self) -> None:
        self._loop.cancel("started")
        self._say(self.state)

    def _spawn(
        self, number: int, words: Union[str, List[str]], env: Mapping[str, str]
    ) -> Optional[Exit]:
        """Start one process; an exit when that was impossible."""
        capture, plan = self._capture, self.plan
        assert capture is not None
        if not os.path.isdir(plan.work):
            return self._failed_start(
                None, verdict.ENVIRONMENT, f"the working directory {plan.work} does not exist"
            )
        said_out, out = os.pipe()
        said_err, err = os.pipe()
        program = command.name_of(words, env)
        try:
            path, argv = command.resolve(words, env, plan.work)
            pid = process.spawn(path, argv, env, plan.work, out, err, plan.cgroups)
        except (OSError, ValueError) as error:
            for fd in (said_out, said_err, out, err):
                os.close(fd)
            if isinstance(error, process.CgroupRefused):
                return self._failed_start(None, verdict.INTERNAL, str(error))
            if not isinstance(error, OSError):  # a NUL byte in a variable or an argument
                return self._failed_start(None, verdict.USER_ERROR, f"cannot be started: {error}")
            code, message = command.refusal(error, program)
            return self._failed_start(code, verdict.USER_ERROR, message)
        self._written += (out, err)
        self._pids.append(pid)
        self._alive[pid] = number
        for offset, fd in enumerate((said_out, said_err)):
            capture.add(fd, 2 * number + offset)
            self._watch_pipe(fd)
        return None

    def _write_files(self, directory: str, files: Mapping[str, str]) -> None:
        """What the framework needs beside variables. Several members of this machine may write
        the same file at once, so each appears whole; some are programs."""
        if files:
            os.makedirs(directory, exist_ok=True)
        for name, content in files.items():
            draft = os.path.join(directory, f"{name}.{os.getpid()}")
            write_small(draft, content.encode())
            os.chmod(draft, 0o700)
            os.replace(draft, os.path.join(directory, name))

    def _failed_start(self, code: Optional[int], cause: str, message: str) -> Exit:
        now = time.time()
        return Exit(code=code, cause=cause, message=message, started=now, ended=now,
                    stopped=bool(self._stop_cause))  # fmt: skip

    def _abandon(self, failed: Exit) -> None:
        """A later process could not be started: end the earlier ones, then tell."""
        process.signal_tree(signal.SIGKILL, self._pids)
        while self._alive:
            ended, left = process.reap()
            for one in ended:
                self._alive.pop(one.pid, None)
            if not left:
                break
            time.sleep(0.005)
        self._close_written()
        if self._capture is not None:
            for fd in self._capture.open_fds:
                self._loop.forget(fd)
            self._capture.finish()
        self._finish(failed)

    def _close_written(self) -> None:
        for fd in self._written:
            os.close(fd)
        self._written = []

    # ---- output ---------------------------------------------------------------------------------

    def _watch_pipe(self, fd: int) -> None:
        self._loop.watch(fd, READ, lambda events: self._readable(fd, events))

    def _readable(self, fd: int, events: int) -> None:
        capture = self._capture
        assert capture is not None
        if events & select.POLLIN and self._loop.has("started"):
            self._tell_started()  # before anybody can see what it says
        if capture.must_wait:
            self._loop.forget(fd)
            self._loop.after(f"pipe {fd}", BUSY, lambda: self._look_again(fd))
            return
        taken = capture.read(fd)
        if taken == 0:
            self._loop.forget(fd)
            if self.phase == DRAINING and not capture.open_fds:
                self._flush()
            return
        now = time.monotonic()
        if taken < MUCH and now - self._read_at.get(fd, 0.0) < BUSY:
            # Somebody prints line by line without a pause: take many of them at once.
            self._loop.forget(fd)
            self._loop.at(f"pipe {fd}", now + BUSY, lambda: self._look_again(fd))
        self._read_at[fd] = now
        if capture.has_unfinished and not self._loop.has("quiet"):
            self._loop.after("quiet", QUIET, self._quiet)

    def _look_again(self, fd: int) -> None:
        if self._capture is not None and fd in self._capture.open_fds:
            self._watch_pipe(fd)

    def _quiet(self) -> None:
        wait = self._capture.flush_quiet() if self._capture is not None else None
        if wait is not None:
            self._loop.after("quiet", wait, self._quiet)

    # ---- stop -----------------------------------------------------------------------------------

    def stop(self, grace: float, cause: str = verdict.STOPPED) -> None:
        """SIGTERM now, SIGKILL when the grace is over; said again it can only shorten the grace."""
        if self.phase == READY:
            self._stop_cause = cause
            self._finish(self._failed_start(None, cause, "ended before it started"))
            return
        if self.phase != RUNNING:
            return
        if not self._stop_cause:
            self._stop_cause = cause
            _touch(os.path.join(self.directory, "stop"))
            process.signal_tree(signal.SIGTERM, self._alive)
        self._kill_by(time.monotonic() + grace)

    def _kill_by(self, moment: float) -> None:
        if moment < self._kill_at:
            self._kill_at = moment
            self._loop.at("kill", moment, self._kill)

    def _kill(self) -> None:
        self._killed = True
        process.signal_tree(signal.SIGKILL, self._alive)
        self._loop.after("kill", 0.05, self._kill)

    # ---- end ------------------------------------------------------------------------------------

    def children_changed(self) -> None:
        """Reap; when a process of ours ended see to the others, when all did see to the rest."""
        if self.phase != RUNNING:
            process.reap()
            return
        ended, any_left = process.reap()
        for one in ended:
            self._samples.see(one.peak_memory)
            if self._alive.pop(one.pid, None) is not None:
                self._process_ended(one)
        if not any_left:
            self._drain()
        elif not self._alive and not self._swept:
            self._sweep()

    def _sweep(self) -> None:
        """The member is over but something of it still runs."""
        self._swept = True
        if not self._stop_cause:
            process.signal_tree(signal.SIGTERM)
        if not self._stop_cause or not self._fell_to_signal():
            self._kill_by(time.monotonic() + LEFTOVER_GRACE)

    def _process_ended(self, one: process.Ended) -> None:
        failed_before = self._ended is not None and self._ended.status != 0
        if not failed_before:
            self._ended = one
        if one.status != 0 and not failed_before and self._alive and not self._stop_cause:
            process.signal_tree(signal.SIGTERM, self._alive)
            self._kill_by(time.monotonic() + min(self.plan.grace, SIBLING_GRACE))

    def _fell_to_signal(self) -> bool:
        """A shell dies of the SIGTERM its script still works on: that keeps the whole grace."""
        status = self._ended.status if self._ended is not None else 0
        return os.WIFSIGNALED(status) or os.WEXITSTATUS(status) > 128

    def _drain(self) -> None:
        capture = self._capture
        assert capture is not None
        self.phase = DRAINING
        self._loop.cancel("started", "kill", "memory", "beat", "saved", "oom")
        self._close_written()
        for fd in capture.open_fds:
            taken = size = 1
            while taken > 0 and size < 4 * 1024 * 1024:  # a stranger might never stop printing
                taken = capture.read(fd)
                size += taken
            if taken == 0:
                self._loop.forget(fd)
        if capture.open_fds:
            self._loop.after("drain", STRANGER_WAIT, self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        capture = self._capture
        assert capture is not None
        for fd in capture.open_fds:
            self._loop.forget(fd)
        self._loop.cancel("drain", "quiet")
        capture.finish()
        self._backlog = capture.backlog
        self.woken()

    def woken(self) -> None:
        """The writer may have finished."""
        if self.phase == DRAINING and self._capture is not None and not self._capture.open_fds:
            if self._capture.done:
                self._conclude()
            elif not self._loop.has("flush"):
                self._loop.after("flush", DISK_PATIENCE, self._impatient)

    def _impatient(self) -> None:
        """The disk is stuck: go on waiting only while it makes progress."""
        assert self._capture is not None
        backlog, self._backlog = self._backlog, self._capture.backlog
        if self._backlog < backlog:
            self._loop.after("flush", DISK_PATIENCE, self._impatient)
        else:
            self._conclude()

    def _conclude(self) -> None:
        capture, one = self._capture, self._ended
        assert capture is not None
        assert one is not None
        self._loop.cancel("flush")
        code = None if os.WIFSIGNALED(one.status) else os.WEXITSTATUS(one.status)
        number = os.WTERMSIG(one.status) if os.WIFSIGNALED(one.status) else None
        lines = capture.last_lines(SEEN_LINES)
        cause, message = self._verdict(code, number, lines)
        if capture.dropped:
            why = capture.trouble or "the disk was too slow"
            note = f"{capture.dropped} lines of its output were dropped: {why}"
            message = f"{message}; {note}" if message else note
        self._finish(
            Exit(
                code=code, signal=number, cause=cause, message=message,
                last_lines=tuple(lines[-LAST_LINES:]), started=self._started, ended=time.time(),
                peak_memory=self._samples.peak, gpu=self._samples.gpu,
                stopped=bool(self._stop_cause), dropped_lines=capture.dropped,
            )
        )  # fmt: skip

    def _verdict(
        self, code: Optional[int], number: Optional[int], lines: List[str]
    ) -> Tuple[str, str]:
        if self._over:
            return verdict.OUT_OF_MEMORY, self._over
        if self._stop_cause == verdict.LOST:
            return verdict.LOST, "stopped: nothing was heard from the coordinator in time"
        was_killed = number == signal.SIGKILL or code == 128 + signal.SIGKILL  # a shell's word
        oom_killed = not self._killed and self._samples.kernel_killed(was_killed=was_killed)
        told = bool(self._stop_cause)
        cause, message = exitrecord.describe(
            code, number, lines, told_to_stop=told, oom_killed=oom_killed
        )
        if oom_killed and cause == verdict.OUT_OF_MEMORY and self.plan.memory:
            message = f"{message}: {self._samples.at_limit(self.plan.memory)}"
        if cause == verdict.STOPPED:
            cause = self._stop_cause
            if self._killed and number == signal.SIGKILL:
                message = "did not end within its grace and was killed"
        return cause, message

    def _finish(self, exit: Exit) -> None:
        self.exit = exit
        self.phase = EXITED
        self._loop.cancel("started", "kill", "memory", "beat", "saved", "oom")
        self._loop.cancel("quiet", "drain", "flush")
        if self._ports is not None:
            self._ports.close()
        if self._capture is not None and self._capture.done:
            self._log.close()
        plan = self.plan
        # Nothing of the member is left; what was held for it is free before anybody hears so.
        for fd in plan.keep_fds:
            os.close(fd)
        try:
            facts = {
                "job": plan.job, "member": plan.member, "run": plan.run, "attempt": plan.attempt,
                "rank": self._rank,
            }  # fmt: skip
            if plan.together:
                exitrecord.append(self.record.exits, exit, **facts)
            else:
                exitrecord.write(self.record.exit(plan.member, plan.run), exit, **facts)
            self._recorded = True
        except OSError as error:  # a full disk: the coordinator still hears of it
            complain(self.directory, f"the exit record could not be written: {error}\n")
        self._say(self.state)

    def crash(self, trace: str) -> None:
        """The agent itself failed: nothing may stay behind, and the record must say so."""
        complain(self.directory, trace)
        end = time.monotonic() + 5
        while process.reap()[1] and time.monotonic() < end:
            process.signal_tree(signal.SIGKILL)
            time.sleep(0.01)
        if self.exit is None:
            last = trace.strip().splitlines()[-1]
            self._finish(Exit(cause=verdict.INTERNAL, message=f"the agent failed: {last}",
                              started=self._started, ended=time.time()))  # fmt: skip

    # ---- samples --------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._loop.after("beat", self.plan.beat, self._beat)
        self._say({"op": "beat", "run": self.plan.run, **self._samples.take()})
        self._tell_saved()  # again, for a coordinator that was not there

    def _look_for_saved(self) -> None:
        self._loop.after("saved", SAVED_LOOK, self._look_for_saved)
        if self._saved.look(time.time()):
            self._tell_saved()

    def _tell_saved(self) -> None:
        at = self._saved.at
        if at is not None and at >= self._started:  # earlier: by an earlier attempt
            ago = max(0.0, time.time() - at)
            self._say({"op": "saved", "run": self.plan.run, "ago": ago})

    def _watch_memory(self) -> None:
        self._loop.after("memory", MEMORY_SAMPLE, self._watch_memory)
        self._over = self._over or self._samples.over(self.plan.memory or 0)
        if self._over:
            self._kill_by(time.monotonic())


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path)
    except OSError:  # there already, or its parents are not
        os.makedirs(path, exist_ok=True)


def _read_secrets(path: str) -> Dict[str, str]:
    if not path:
        return {}
    return {str(name): str(value) for name, value in json.loads(read_small(path)).items()}


def _touch(path: str) -> None:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:  # the signal says it too
        pass


def complain(directory: str, text: str) -> None:
    """Into agent.err of the run: what went wrong with the agent itself."""
    try:
        with open(os.path.join(directory, "agent.err"), "a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        pass
