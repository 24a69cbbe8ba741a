import pytest

from dromon.errors import JobFileError
from dromon.spec import Job, load_data, load_text


def problems(text: str | bytes, *overrides: str) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        load_text(text, "job.yaml", overrides)
    assert str(caught.value) == "\n".join(str(p) for p in caught.value.problems)
    return [str(problem) for problem in caught.value.problems]


def role(line: str) -> str:
    return f"roles:\n  worker:\n    command: x\n    {line}\n"


def test_the_form_of_a_problem() -> None:
    text = "name: a\nroles:\n  worker:\n    command: x\n\n\n    resorces: {cpus: 1}\n"
    assert problems(text) == [
        "job.yaml:7:5: roles.worker.resorces: unknown key; did you mean resources?"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # unknown keys
        ("command: x\nqeue: a", "2:1: qeue: unknown key; did you mean queue?"),
        ("command: x\ngpus: 1", "2:1: gpus: unknown key; did you mean resources.gpus?"),
        ("command: x\nworkers: 4", "2:1: workers: unknown key; did you mean replicas?"),
        ("command: x\npip: [a]", "2:1: pip: unknown key; did you mean environment.packages?"),
        ("command: x\nzzz: 1", "2:1: zzz: unknown key"),
        ("command: x\nmodel: {a: 1}", "2:1: model: unknown key; put these under config:"),
        ("command: x\ntraining: 3", "2:1: training: unknown key; put these under config:"),
        ("command: x\ndata: {a: 1}", "2:1: data: unknown key; put these under config:"),
        (role("memory: 1GiB"),
         "4:5: roles.worker.memory: unknown key; did you mean resources.memory?"),
        (role("framework: torch"), "4:5: roles.worker.framework: unknown key;"
         " framework stands at the top of the file, not here"),
        ("command: x\nresources: {replicas: 2}", "2:13: resources.replicas: unknown key;"
         " replicas stands beside resources, not in it"),
        # units
        ("command: x\nresources: {memory: 16 gigs}",
         "2:21: resources.memory: '16 gigs' is not a size; did you mean 16GiB?"),
        ("command: x\nresources: {memory: lots}", "2:21: resources.memory: 'lots' is not a size;"
         " write for example 512MiB or 16GiB"),
        ("command: x\nresources: {memory: 16}",
         "2:21: resources.memory: 16 is 16 bytes, less than 1 MiB; did you mean 16GiB?"),
        ("command: x\nmax_duration: 2 hours",
         "2:15: max_duration: '2 hours' is not a duration; did you mean 2h?"),
        ("command: x\nmax_duration: 0", "2:15: max_duration: expected more than no time at all"),
        ("command: x\nstop_grace: .nan",
         "2:13: stop_grace: the number nan is longer than ten years"),
        # quotes
        ("command: x\nenvironment: {python: 3.10}", "2:23: environment.python:"
         ' 3.10 without quotes is the number 3.1; quote it: python: "3.10"'),
        ("command: x\nenvironment: {python: 3.11}", "2:23: environment.python:"
         ' 3.11 without quotes is the number 3.11; quote it: python: "3.11"'),
        ("command: x\nenv: {N: 1}", '2:10: env.N: expected text, got the number 1; quote it: "1"'),
        ("command: x\nenv: {N: 0x10}",
         '2:10: env.N: expected text, got the number 16; quote it: "0x10"'),
        ("command: x\nenv: {N: True}", '2:10: env.N: expected text, got true; quote it: "True"'),
        ("command: [python, 3]",
         '1:19: command[1]: expected text, got the number 3; quote it: "3"'),
        # types
        ("command: {a: 1}",
         "1:10: command: expected a command line or a list of arguments, got a mapping"),
        ("command: ''", "1:10: command: an empty command"),
        ("command: x\nreplicas: four", "2:11: replicas: expected a whole number, got 'four'"),
        ("command: x\nreplicas: '4'", "2:11: replicas: expected a whole number, got '4';"
         " write 4 without quotes"),
        ("command: x\nreplicas: 2.5",
         "2:11: replicas: expected a whole number, got the number 2.5"),
        ("command: x\nreplicas: true", "2:11: replicas: expected a whole number, got true"),
        ("command: x\nreplicas: 0", "2:11: replicas: expected at least 1, got the number 0"),
        ("command: x\npreemptible: yes",
         "2:14: preemptible: expected true or false, got 'yes'; write true"),
        ("command: x\noutputs: model",
         "2:10: outputs: expected a list, got 'model'; write [model]"),
        ("command: x\nretries: 3",
         "2:10: retries: expected a mapping, got the number 3; write {max: 3}"),
        ("command: x\nvolumes: {a: /data}",
         "2:14: volumes.a: expected a mapping, got '/data'; write {source: /data}"),
        ("command: x\nvolumes: {a: {}}", "2:11: volumes.a.source: missing"),
        ("command: x\nvolumes: {A_B: {source: /x}}", "2:11: volumes.A_B: 'A_B' is not a name:"
         " small letters, digits and dashes, a letter first; did you mean a-b?"),
        ("command: x\nenvironment: [torch]",
         "2:14: environment: expected a mapping, got a list; write {packages: […]}"),
        ("command: x\nspread: nodes",
         "2:9: spread: expected none or node, got 'nodes'; did you mean node?"),
        ("command: x\nresources: {gpus: 1.5}",
         "2:19: resources.gpus: 1.5 GPUs: a part of a GPU is less than one; write 2"),
        ("command: x\nresources: {gpus: {a100: 0}}",
         "2:26: resources.gpus.a100: expected at least one GPU or a part of one"),
        ("command: x\nresources: {cpus: -1}",
         "2:19: resources.cpus: expected at least 0, got the number -1"),
        ("command: x\nqueue:", "2:7: queue: expected a name, got nothing"),
        ("command: x\nconfig: [1]", "2:9: config: expected a mapping, got a list"),
        ("command: x\nconfig: {a: [.inf]}",
         "2:14: config.a[0]: inf has no place in JSON; quote it"),
        ("command: x\ntensorboard: /abs", "2:14: tensorboard: '/abs' is absolute;"
         " expected a path relative to the working directory"),
        ("command: x\noutputs: [a/../../b]",
         "2:11: outputs[0]: 'a/../../b' leads out of the working directory"),
        ("command: x\nenv: {1A: x}", "2:7: env.1A: '1A' is not the name of a variable"),
        ("command: x\nenv: {A: \"\\0\"}", "2:10: env.A: has a NUL character in it"),
        ("command: \"a\\0b\"", "1:10: command: has a NUL character in it"),
        ("command: x\nenv: {A: \"\\ud800\"}",
         "2:10: env.A: has half a character (a lone surrogate) in it"),
        # names
        ("command: x\nname: My_Job", "2:7: name: 'My_Job' is not a name: small letters, digits and"
         " dashes, a letter first; did you mean my-job?"),
        (f"command: x\nname: {'a' * 34}",
         "2:7: name: a name here has at most 33 characters, this one 34"),
        ("roles: {Worker: {command: x}}", "1:9: roles.Worker: 'Worker' is not a name: small"
         " letters, digits and dashes, a letter first; did you mean worker?"),
        # frameworks
        ("command: x\nframework: pytorch",
         "2:12: framework: unknown framework 'pytorch'; did you mean torch?"),
        ("command: x\nframework: tensorflw",
         "2:12: framework: unknown framework 'tensorflw'; did you mean tensorflow?"),
        ("framework: tensorflow\nroles: {wroker: {command: x}}",
         "2:9: roles.wroker: tensorflow has no role 'wroker'; did you mean worker?"),
        # gangs
        (role("min: 3"), "4:10: roles.worker.min: min 3 is more than replicas 1"),
        ("roles: {}", "1:8: roles: a job needs at least one role; write roles: {worker: …}"),
        ("roles:", "1:7: roles: expected a mapping, got nothing"),
        ("roles:\n  worker: {}", "2:3: roles.worker.command: missing;"
         " write for example command: python train.py"),
        ("replicas: 2", "1:1: command: missing; write for example command: python train.py"),
        ("command: x\nroles: {worker: {command: y}}",
         "1:1: command: cannot stand beside roles; move it into a role"),
        ("command: x\ntotal_gpus: 4\nreplicas: 2",
         "3:1: replicas: cannot stand beside total_gpus; keep one of them"),
        ("command: x\ntotal_gpus: 4\nresources: {gpus: 0}",
         "3:13: resources.gpus: cannot stand beside total_gpus; keep one of them"),
        ("total_gpus: 4\nroles: {a: {command: x}, b: {command: x}}", "1:13: total_gpus:"
         " needs a job of one role, this one has 2; write replicas and gpus for each role"),
        # variables
        ("command: x\nenv: {RANK: '0'}",
         "2:7: env.RANK: is set by Dromon for every member; leave it out"),
        (role("env: {TF_CONFIG: '0'}"), "4:11: roles.worker.env.TF_CONFIG:"
         " is set by Dromon for every member; leave it out"),
        ("command: x\nsecrets: [WORLD_SIZE]",
         "2:11: secrets[0]: WORLD_SIZE is set by Dromon for every member; leave it out"),
        ("command: x\nsecrets: [A, A]", "2:14: secrets[1]: A is there twice; keep one"),
        ("command: x\nenv: {A: b}\nsecrets: [A]",
         "3:11: secrets[0]: A is in env too; a secret is named here only"),
        # the rest
        ("command: x\nenvironment: {packages: [a], lock: b}",
         "2:30: environment.lock: cannot stand beside packages; keep one of them"),
        ("command: x\nenvironment: {image: a, python: '3.11'}",
         "2:25: environment.python: an image brings its own Python; leave it out"),
        ("command: x\nvolumes: {a: {source: node, access: copy}}", "2:37: volumes.a.access:"
         " scratch space on the node can only be mounted; leave it out"),
        ("command: x\nhdfs: [nn]", "2:8: hdfs[0]: 'nn' is not the address of a name node;"
         " write for example hdfs://name-node:8020"),
        ("command: x\npolicies: {member_fail: ignore}",
         "2:12: policies.member_fail: unknown event; did you mean member_failed?"),
        ("command: x\npolicies: {exit_code:256: ignore}", "2:12: policies.exit_code:256:"
         " an exit code is a number from 0 to 255; write for example exit_code:3"),
        ("command: x\npolicies: {pending:soon: ignore}", "2:12: policies.pending:soon:"
         " 'soon' is not a duration; did you mean"),
        ("command: x\npolicies: {member_lost: restart}",
         "2:25: policies.member_lost: unknown action 'restart'; did you mean restart_job?"),
        ("command: x\nworkdir: ${config.a}", "2:10: workdir: placeholders are not filled in here;"
         " write it out"),
        # no mapping at all
        ("", "1:1: is empty; a job needs at least a command: python train.py"),
        ("# nothing\n", "1:1: is empty; a job needs at least a command: python train.py"),
        ("- command: x", "1:1: expected keys and values at the top, got a list;"
         " write for example command: python train.py"),
        ("python train.py", "1:1: expected keys and values at the top, got 'python train.py';"
         " write for example command: python train.py"),
    ],
)  # fmt: skip
def test_one_thing_wrong_gives_one_problem_in_its_place(text: str, said: str) -> None:
    found = problems(text)
    if said.endswith("did you mean"):
        said = f"job.yaml:{said.split(';')[0]}"
        assert len(found) == 1
        assert found[0].startswith(said)
    else:
        assert found == [f"job.yaml:{said}"]


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
name: my_job
framework: torch
environment: {python: 3.10, packages: [torch], lock: uv.lock}
roles:
  worker:
    replicas: 2
    min: 3
    command: run ${config.epoch}
    resources: {cpus: many, memory: 3 gigs}
  server:
    replicas: 2
secrets: [A, A]
secrets: [B]
config: {epochs: 3, bad: .nan}
"""
    places = [line.split(": ")[0:2] for line in problems(text)]
    assert places == [
        ["job.yaml:1:7", "name"],
        ["job.yaml:3:23", "environment.python"],
        ["job.yaml:3:48", "environment.lock"],
        ["job.yaml:7:10", "roles.worker.min"],
        ["job.yaml:8:14", "roles.worker.command"],
        ["job.yaml:9:23", "roles.worker.resources.cpus"],
        ["job.yaml:9:37", "roles.worker.resources.memory"],
        ["job.yaml:10:3", "roles.server.command"],
        ["job.yaml:12:14", "secrets[1]"],
        ["job.yaml:13:1", "secrets"],
        ["job.yaml:14:26", "config.bad"],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "roles: {worker: {command: x, replicas: four, min: 3}}",
        "roles: {worker: {command: [x, 3]}}",
        "roles: {Worker: {command: x}}",
        "command: x ${volumes.a}\nvolumes: {a: {}}",
        "command: x ${config.a}\nconfig: {a: .nan}",
        "command: x\nresources: {gpus: {a100: x}}",
        "command: x\nsecrets: [1bad, A]\nenv: {A: b}",
        "roles: [x]",
    ],
)
def test_one_problem_does_not_make_up_another(text: str) -> None:
    assert len(problems(text)) == 1


def test_a_file_of_nothing_but_problems_is_cut_short() -> None:
    found = problems("\n".join(f"key{n}: {n}" for n in range(20_000)))
    assert len(found) <= 102
    assert found[-1] == "job.yaml: has more problems than these"


def test_data_has_no_lines() -> None:
    with pytest.raises(JobFileError) as caught:
        load_data({"command": "x", "qeue": "y"})
    assert str(caught.value) == "request: qeue: unknown key; did you mean queue?"


@pytest.mark.parametrize("data", [None, [], "command", 3, {1: 2}, {"command": "x", 1: 2}])
def test_data_that_is_no_mapping_of_texts_is_refused(data: object) -> None:
    with pytest.raises(JobFileError):
        load_data(data)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "DROMON_RANK", "MASTER_ADDR", "DMLC_ROLE", "LOCAL_RANK"]
)
def test_what_dromon_sets_cannot_be_set(name: str) -> None:
    assert problems(f"command: x\nenv: {{{name}: a}}") == [
        f"job.yaml:2:7: env.{name}: is set by Dromon for every member; leave it out"
    ]


def test_a_framework_brings_the_roles_it_cannot_do_without() -> None:
    job = load_text("framework: mxnet\ncommand: x\nreplicas: 3\n", "f")
    assert set(job.roles) == {"worker", "scheduler", "server"}
    assert (job.roles["worker"].replicas, job.roles["scheduler"].replicas) == (3, 1)
    assert job.roles["scheduler"].command == 'python -c "import mxnet"'
    assert job.roles["scheduler"].resources.cpus < 1
    assert load_data(job.to_data()) == job


def test_a_role_the_framework_runs_may_lack_its_command() -> None:
    job = load_text("framework: mxnet\nroles: {worker: {command: x}, server: {replicas: 2}}", "f")
    assert (job.roles["server"].replicas, job.roles["server"].command) == (
        2, 'python -c "import mxnet"',
    )  # fmt: skip


def test_total_gpus_goes_with_roles_that_the_framework_brings() -> None:
    assert load_text("framework: mxnet\ncommand: x\ntotal_gpus: 4", "f").total_gpus == 4


def test_the_short_form_is_one_role_called_worker() -> None:
    short = load_text("command: x\nreplicas: 3\nresources: {gpus: 1}\nqueue: q\n", "f")
    long = load_text(
        "queue: q\nroles: {worker: {command: x, replicas: 3, resources: {gpus: 1}}}", "f"
    )
    assert short == long
    assert isinstance(short, Job)
