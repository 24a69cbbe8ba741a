"""`dromon cluster` and `dromon import` as they are typed."""

import json

import pytest

from dromon.cli.main import main

BAD = """\
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: predicates
  - name: proportion
"""
SITE = "queues: {default: {deserved: {gpus: 1}}}\npriorities: {low: {value: 1, default: true}}\n"
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: pi, namespace: n}
spec: {template: {spec: {containers: [{name: c, image: i, command: [x]}]}}}
"""


@pytest.fixture
def dromon(tmp_path, monkeypatch, capfd):
    """Types a command in an empty directory: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main(list(words))
        out, err = capfd.readouterr()
        return code, out, err

    return run


def test_render_prints_everything_in_one_stream(dromon, tmp_path):
    (tmp_path / "site.yaml").write_text(SITE)
    code, out, err = dromon("cluster", "render", "volcano")
    assert (code, err) == (0, "")
    kinds = [line for line in out.splitlines() if line.startswith("kind: ")]
    assert kinds == ["kind: PriorityClass", "kind: Queue", "kind: ConfigMap"]
    assert dromon("cluster", "render", "volcano", "site.yaml", "-o", "yaml")[1] == out


def test_render_writes_a_file_for_each_kind(dromon, tmp_path):
    (tmp_path / "other.yaml").write_text(SITE)
    code, out, err = dromon("cluster", "render", "volcano", "other.yaml", "-o", "clusters/prod")
    assert (code, out) == (0, "")
    assert "wrote priorities.yaml, queues.yaml, scheduler.yaml to clusters/prod" in err
    written = sorted(path.name for path in (tmp_path / "clusters/prod").iterdir())
    assert written == ["priorities.yaml", "queues.yaml", "scheduler.yaml"]


def test_render_tells_every_problem_of_the_site_file(dromon, tmp_path):
    (tmp_path / "site.yaml").write_text("queus: {}\npriorities: {a: x}\n")
    code, out, err = dromon("cluster", "render", "volcano")
    assert (code, out) == (64, "")
    assert err.splitlines() == [
        "site.yaml:1:1: queus: unknown key; did you mean queues?",
        "site.yaml:2:14: priorities.a.value: expected a whole number, got 'x'",
        "dromon: 2 problems in site.yaml",
    ]


def test_lint_tells_errors_by_its_exit_code(dromon, tmp_path):
    (tmp_path / "v.conf").write_text(BAD)
    code, out, err = dromon("cluster", "lint", "volcano", "v.conf")
    assert code == 1
    assert "v.conf:8:5: error: on a full cluster jobs stay Pending" in out
    assert out.count("    do:  ") == out.count("    why: ") >= 3
    assert err.startswith("dromon: ")
    code, out, _ = dromon("cluster", "lint", "volcano", "v.conf", "-o", "json")
    assert code == 1
    first = json.loads(out)[0]
    assert set(first) == {
        "file", "line", "column", "severity", "rule", "what", "why", "remedy",
    }  # fmt: skip


def test_lint_is_content_with_what_render_makes(dromon, tmp_path):
    (tmp_path / "site.yaml").write_text(SITE)
    dromon("cluster", "render", "volcano", "-o", "out")
    files = [f"out/{name}.yaml" for name in ("scheduler", "queues", "priorities")]
    code, out, err = dromon("cluster", "lint", "volcano", *files)
    assert (code, out) == (0, "")
    assert "nothing found" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster", "lint", "volcano"), "which files?"),
        (("cluster", "lint", "volcano", "no.conf"), "cannot read no.conf: No such file"),
        (("cluster", "lint", "volcano", "a", "-o", "yaml"), "-o yaml: expected json"),
        (("cluster", "render", "volcano", "a", "b"), "one site file, not several"),
        (("cluster", "render", "yarn"), "invalid choice"),
        (("cluster", "apply", "volcano"), "invalid choice"),
        (("import", "volcano", "no.yaml"), "cannot read no.yaml: No such file"),
        (("import", "slurm", "no.yaml"), "invalid choice"),
        (("import", "volcano"), "the following arguments are required: FILE"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_line(dromon, words, said):
    code, out, err = dromon(*words)
    assert (code, out) == (64, "")
    assert said in err
    assert "Traceback" not in err


def test_import_prints_the_job_file_and_says_the_rest_on_stderr(dromon, tmp_path):
    (tmp_path / "vc.yaml").write_text(JOB)
    code, out, err = dromon("import", "volcano", "vc.yaml")
    assert code == 0
    assert "name: pi\n" in out
    assert err == "vc.yaml:3:22: metadata.namespace: the namespace is the context's: left out\n"


def test_import_never_overwrites_a_file(dromon, tmp_path):
    (tmp_path / "vc.yaml").write_text(JOB)
    code, out, err = dromon("import", "volcano", "vc.yaml", "-o", "job.yaml")
    assert (code, out) == (0, "")
    assert "dromon: wrote job.yaml" in err
    assert dromon("check", "job.yaml")[0] == 0
    code, _, err = dromon("import", "volcano", "vc.yaml", "-o", "job.yaml")
    assert code == 64
    assert "job.yaml exists already" in err


def test_import_says_by_its_exit_code_that_something_is_missing(dromon, tmp_path):
    (tmp_path / "vc.yaml").write_text(JOB.replace(", command: [x]", ""))
    code, out, err = dromon("import", "volcano", "vc.yaml")
    assert code == 1
    assert "replicas: 1" in out
    assert "the job file: roles.worker.command: missing" in err


def test_import_of_something_else_says_what_it_is(dromon, tmp_path):
    (tmp_path / "vc.yaml").write_text("kind: Deployment\napiVersion: apps/v1\n")
    code, out, err = dromon("import", "volcano", "vc.yaml")
    assert (code, out) == (64, "")
    assert err.splitlines() == [
        "vc.yaml:1:1: kind: a Deployment of apps is no Job; it never ends; Dromon runs jobs that "
        "do",
        "dromon: vc.yaml cannot be imported",
    ]
