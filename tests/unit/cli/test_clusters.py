"""Jobs that are elsewhere, as the commands show them: --on, contexts, uploads."""

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from fake_api import FakeApi, FakeJob, line, make_status

from dromon.cli.main import main
from dromon.cli.transfer import line as drawn
from dromon.contexts.file import make
from dromon.engines.base import Queue

AWAY = make_status(7, "far", on="prod")


@pytest.fixture
def api():
    return FakeApi(FakeJob(AWAY, [line("x")]), FakeJob(make_status()))


@pytest.fixture
def dromon(api, capfd):
    def call(*words, code=0):
        assert main(list(words), api=api) == code
        return capfd.readouterr()

    return call


# ---- where --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["logs", "far"], "logs"), (["stop", "far"], "stop"), (["diff", "far", "41"], "diff"),
        (["rm", "far"], "remove"), (["gc"], "gc"), (["nodes"], "nodes"), (["queues"], "queues"),
        (["attach", "far"], "attach"), (["rerun", "-d", "far"], "rerun"),
        (["run", "-d", "--", "true"], "start"), (["ps"], "jobs"),
    ],
)  # fmt: skip
def test_every_command_hands_on_where(api, dromon, words, name):
    dromon(*words, "--on", "prod") if "--" not in words else dromon(
        "run", "--on", "prod", *words[1:]
    )
    call = next(call for called, call in api.calls if called == name)
    assert call["on"] == "prod"


def test_without_on_nothing_is_said_of_it(api, dromon):
    dromon("stop", "41")
    dromon("gc")
    dromon("run", "-d", "--", "true")
    assert all("on" not in call for _, call in api.calls)


def test_a_cluster_job_is_called_by_its_id_and_place(dromon):
    out, err = dromon("run", "job.yaml")
    assert out == "x\n"
    assert err.splitlines() == [
        "dromon: job far-k3x9p2 on prod queued",
        "dromon: job far-k3x9p2 on prod succeeded in 12s",
        "next: dromon show far-k3x9p2 · dromon logs far-k3x9p2 · dromon rerun far-k3x9p2",
    ]


def test_the_engines_own_pages_are_linked(api, dromon):
    api.links = {"application": "http://rm:8088/cluster/app/application_1_0007"}
    err = dromon("run", "-d", "job.yaml").err
    assert "application: http://rm:8088/cluster/app/application_1_0007\n" in err


def test_where_is_named_only_when_it_would_not_be_known(api, dromon):
    assert "dromon attach far-k3x9p2 · " in dromon("run", "-d", "job.yaml").err
    api.is_known = False
    assert "dromon attach far-k3x9p2 --on prod · " in dromon("run", "-d", "job.yaml").err


def test_a_session_asks_where_the_job_is(api, dromon):
    dromon("attach", "far")
    assert ("logs", {"ref": "far-k3x9p2", "follow": True, "tail": 20, "on": "prod"}) in api.calls


def test_ps_has_a_column_for_the_place_and_no_number_that_means_another_job(dromon):
    lines = dromon("ps").out.splitlines()
    assert lines[0].split()[:4] == ["#", "JOB", "ON", "STATE"]
    assert lines[1].split()[:4] == ["-", "far-k3x9p2", "prod", "running"]
    assert lines[2].split()[:4] == ["41", "unet3d-k3x9p2", "local", "running"]
    assert dromon("ps", "--names").out == "far-k3x9p2\n41\nunet3d-k3x9p2\n"
    assert [job["on"] for job in json.loads(dromon("ps", "-o", "json").out)] == ["prod", "local"]


def test_those_that_did_not_answer_are_named_in_one_line(api, dromon):
    api.silent = {"dev": "no answer within 5 s", "old": "refused"}
    err = dromon("ps").err
    assert err == "dromon: did not answer: dev (no answer within 5 s), old (refused)\n"


def test_show_names_the_place_the_application_and_its_pages(api, dromon):
    api.page = {"application": "application_1_0007", "links": {"page": "http://rm:8088/app"}}
    out = dromon("show", "far").out
    assert out.startswith("job far-k3x9p2 on prod  running\n")
    assert "  application application_1_0007\n" in out
    assert "  pages       page: http://rm:8088/app\n" in out


def test_queues_are_a_table_and_json(api, dromon):
    api.lanes = [Queue("research", 3, 1, 0.25, 1.5), Queue("default", 0, 0)]
    assert dromon("queues", "--on", "prod").out.splitlines() == [
        "QUEUE     CAPACITY  USED  RUNNING  QUEUED  STATE",
        "research       25%  150%        3       1  running",
        "default          -     -        0       0  running",
    ]
    assert json.loads(dromon("queues", "--on", "prod", "-o", "json").out)[0]["capacity"] == 0.25


# ---- contexts -----------------------------------------------------------------------------------


def test_adding_a_context_says_what_was_found(api, dromon):
    api.about = {"version": "3.4.3", "nodes": 3, "queues": list("abcdefgh"), "notes": ["slow"]}
    words = ("context", "add", "prod", "--yarn", "rm:8032", "--set", "queue=research")
    assert dromon(*words).err.splitlines() == [
        "dromon: added the context prod: yarn at rm:8032",
        "  version    3.4.3",
        "  nodes      3",
        "  queues     a, b, c, d, e, f and 2 more",
        "  note       slow",
        "next: dromon nodes --on prod · dromon run job.yaml --on prod",
    ]
    assert api.file.by_name["prod"].queue == "research"
    assert api.calls[-1] == ("add_context", {"check": True})
    dromon(*words, "--no-check")
    assert api.calls[-1] == ("add_context", {"check": False})
    found = json.loads(dromon(*words, "-o", "json").out)
    assert found["where"] == "rm:8032"
    assert found["found"]["version"] == "3.4.3"


def test_contexts_are_listed_shown_used_and_removed(api, dromon):
    assert "no contexts" in dromon("context", "list").err
    api.file.by_name = {
        "prod": make("prod", "yarn", "rm:8032", {"queue": "q", "dfs.replication": "1"}),
        "dev": make("dev", "yarn", "http://dev:8088"),
    }
    assert "jobs go to dev" in dromon("context", "use", "dev").err
    assert [row.split() for row in dromon("context", "list").out.splitlines()] == [
        ["NAME", "KIND", "WHERE", "QUEUE"],
        ["prod", "yarn", "rm:8032", "q"],
        ["*", "dev", "yarn", "http://dev:8088"],
    ]
    assert dromon("context", "show", "prod").out.splitlines() == [
        "name           prod", "kind           yarn", "where          rm:8032",
        "queue          q", "dfs.replication 1", "default        no",
    ]  # fmt: skip
    assert json.loads(dromon("context", "list", "-o", "json").out)[1]["default"] is True
    names = dromon("context", "list", "--names").out.split()
    assert names == ["local", "yarn", "kubernetes", "prod", "dev"]
    assert "its jobs go on" in dromon("context", "remove", "prod").err
    assert list(api.file.by_name) == ["dev"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "prod"], "context add: where is it?"),
        (["add", "--yarn", "rm"], "context add: which one?"),
        (["add", "prod", "--yarn", "rm", "--set", "queue"], "--set queue: expected KEY=VALUE"),
        (["show"], "context show: which one?"),
        (["list", "prod"], "context list takes no name"),
        (["use", "prod", "--default"], "context use: --default is for add"),
        (["show", "gone"], "there is no context 'gone'"),
        (["grow", "prod"], "invalid choice"),
    ],
)
def test_what_makes_no_sense_is_said(dromon, words, said):
    assert said in dromon("context", *words, code=64).err


# ---- uploads ------------------------------------------------------------------------------------


def test_the_line_of_an_upload():
    assert drawn("packing", 0, 0, 9.0) == "packing …"
    assert drawn("packing", 2048, 0, 9.0) == "packing  2.0 KiB"
    mib = 1 << 20
    assert drawn("uploading", 84 * mib, 336 * mib, 4.0) == (
        "uploading [#####···············] 25%  84.0 MiB of 336 MiB  21.0 MiB/s"
    )
    assert drawn("uploading", 5, 4, 0.1).startswith("uploading [####################] 100%  ")


def test_without_a_terminal_only_a_large_upload_is_worth_a_line(api, dromon):
    api.steps = [("uploading the code", 10, 20), ("uploading the environment", 0, 1 << 30)]
    err = dromon("run", "-d", "job.yaml").err
    assert "the code" not in err
    assert err.count("dromon: uploading the environment: 1.0 GiB\n") == 1


def test_an_interrupt_during_the_upload_submits_nothing_and_says_so(api, dromon):
    api.steps = [("uploading the code", 10, 20), ("interrupt", 0, 0)]
    before = signal.getsignal(signal.SIGINT)
    err = dromon("run", "job.yaml", code=130).err
    assert "dromon: interrupted: nothing was submitted" in err
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_the_cluster_is_asked_waits_for_the_answer(api, dromon):
    api.steps = [("submitting", 0, 0), ("interrupt", 0, 0)]
    out, err = dromon("run", "-d", "job.yaml", code=130)
    assert out == "far-k3x9p2\n"
    assert "the cluster is being asked already" in err
    assert "dromon: job far-k3x9p2 on prod queued" in err


def test_and_then_stops_the_job_when_it_was_to_be_followed(api, dromon):
    api.known[0].endless = True
    api.steps = [("submitting", 0, 0), ("interrupt", 0, 0)]
    dromon("run", "job.yaml", code=130)
    assert ("stop", {"refs": ["far-k3x9p2"], "grace": None, "on": "prod"}) in api.calls


def test_on_a_terminal_the_line_is_redrawn_and_gone_at_the_end():
    code = (
        "import sys; from fake_api import *; from dromon.cli.main import main\n"
        "api = FakeApi(FakeJob(make_status(7, 'far', on='prod')))\n"
        "api.steps = [('uploading', 1, 4), ('uploading', 4, 4), ('submitting', 0, 0)]\n"
        "sys.exit(main(['run', '-d', 'job.yaml'], api=api))"
    )
    pid, fd = pty.fork()
    if pid == 0:
        env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__), "NO_COLOR": "1"}
        os.execve(sys.executable, [sys.executable, "-c", code], env)
    seen = b""
    try:
        while data := os.read(fd, 4096):
            seen += data
    except OSError:
        pass
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    text = seen.decode()
    assert re.search(
        r"uploading \[#{5}·{15}\] 25%.*\r\x1b\[Kdromon: uploading \[#{20}\] 100%", text
    )
    assert re.search(r"submitting …\r\x1b\[Kdromon: job far-k3x9p2 on prod queued", text)


def test_a_submit_to_this_machine_loads_nothing_of_uploads():
    code = (
        "import sys; from fake_api import *; from dromon.cli.main import main\n"
        "main(['run', '-d', '--', 'true'], api=FakeApi(FakeJob(make_status())))\n"
        "print('dromon.cli.transfer' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False", done.stderr
