import pytest

from dromon.errors import JobFileError
from dromon.spec import Job, load_data, load_text, resolve
from dromon.spec.interpolate import volume_paths


def command(text: str, **keys: object) -> object:
    job = load_data({"command": text, **keys})
    return resolve(job, id="unet-abc234", name="unet").roles["worker"].command


def refusal(text: str) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        load_text(text, "f")
    return [str(problem) for problem in caught.value.problems]


CONFIG = {"a": {"b": 3}, "lr": 1e-4, "names": ["x", "y"], "on": True, "none": None, "k.e.y": "dots"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("run ${config.a.b}", "run 3"),
        ("run ${config.lr} ${config.on} ${config.none}", "run 0.0001 true null"),
        ("run ${config.names} ${config.names.1}", 'run ["x","y"] y'),
        ("run ${config.a}", 'run {"b":3}'),
        ("run ${config.k.e.y}", "run dots"),
        ("${job.id} ${job.name} ${job.queue} ${job.framework}", "unet-abc234 unet default none"),
        ("echo ${HOME} $HOME ${config} ${configs.a} $(x) ${x:-y}",
         "echo ${HOME} $HOME ${config} ${configs.a} $(x) ${x:-y}"),
        ("echo $${HOME} $${config.a.b}", "echo ${HOME} ${config.a.b}"),
        ("echo $$ $$$${config.a.b}", "echo $$ $$${config.a.b}"),
    ],
)  # fmt: skip
def test_a_command_is_filled_in(text: str, filled: str) -> None:
    assert command(text, config=CONFIG) == filled


def test_arguments_variables_sources_outputs_and_config_are_filled_in() -> None:
    job = load_data(
        {
            "command": ["a", "${config.x}"],
            "env": {"A": "${config.x}", "B": None},
            "volumes": {"v": {"source": "/data/${config.x}"}},
            "outputs": ["out/${job.id}"],
            "tensorboard": "runs/${config.x}",
            "config": {"x": 1, "y": "${config.x}", "z": ["n${config.y}", {"w": "${config.z.0}"}]},
        }
    )
    filled = resolve(job, id="j-1", name="j")
    assert filled.roles["worker"].command == ["a", "1"]
    assert filled.env == {"A": "1", "B": None}
    assert filled.volumes["v"].source == "/data/1"
    assert filled.outputs == ["out/j-1"]
    assert filled.tensorboard == "runs/1"
    assert filled.config == {"x": 1, "y": 1, "z": ["n1", {"w": "n1"}]}
    assert filled.name == "j"
    assert job.config["y"] == "${config.x}"


def test_volumes_stay_until_their_paths_are_known() -> None:
    job = load_data(
        {"command": "cp ${volumes.ct}/a $${volumes.ct} ${X}", "volumes": {"ct": {"source": "/d"}}}
    )
    waiting = resolve(job, id="j-1", name="j").roles["worker"].command
    assert isinstance(waiting, str)
    assert volume_paths(waiting, {"ct": "/mnt/ct"}) == "cp /mnt/ct/a ${volumes.ct} ${X}"
    at_once = resolve(job, id="j-1", name="j", volumes={"ct": "/mnt/ct"}).roles["worker"].command
    assert at_once == "cp /mnt/ct/a ${volumes.ct} ${X}"


def test_a_resolved_job_comes_back_from_its_data_unchanged() -> None:
    job = load_data({"command": "echo $${config.a}"})
    resolved = resolve(job, id="j-1", name="j")
    assert Job.from_data(resolved.to_data()) == resolved


def test_a_job_without_placeholders_only_gets_its_name() -> None:
    job = load_data({"command": "true"})
    assert resolve(job, id="j-1", name="j").to_data() == {**job.to_data(), "name": "j"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("command: x ${config.trainig.lr}\nconfig: {training: {lr: 1}}", "f:1:10: command:"
         " ${config.trainig.lr} is not in config; did you mean ${config.training.lr}?"),
        ("command: x ${config.a}", "f:1:10: command: ${config.a} is not in config"),
        ("command: x ${config.a.b}\nconfig: {a: 1}",
         "f:1:10: command: ${config.a.b} is not in config"),
        ("command: x ${config.}", "f:1:10: command: ${config.} is not in config"),
        ("command: x ${job.nme}",
         "f:1:10: command: ${job.nme} is not known; did you mean ${job.name}?"),
        ("command: x ${volumes.ctt}\nvolumes: {ct: {source: /a}}", "f:1:10: command:"
         " ${volumes.ctt} is not one of the volumes; did you mean ${volumes.ct}?"),
        ("command: x ${config.a\nconfig: {a: 1}",
         "f:1:10: command: ${config.… is never closed; write $${ for a plain ${"),
        ("command: x\nconfig: {a: '${config.b}', b: 'x${config.c}', c: ['${config.a}']}",
         "f:2:13: config.a: goes round in a circle:"
         " config.a -> config.b -> config.c.0 -> config.a"),
        ("command: x\nconfig: {a: '${config.a}'}",
         "f:2:13: config.a: goes round in a circle: config.a -> config.a"),
        ("command: x\nconfig: {a: {b: '${config.a}'}}",
         "f:2:17: config.a.b: goes round in a circle: config.a.b -> config.a.b"),
        ("command: x\noutputs: ['${config.o}']\nconfig: {o: ../up}",
         "f:2:11: outputs[0]: '../up' leads out of the working directory"),
        ("command: x\nvolumes: {a: {source: /a}, b: {source: '${volumes.a}/b'}}",
         "f:2:40: volumes.b.source: cannot hold the path of a volume"),
    ],
)  # fmt: skip
def test_what_cannot_be_filled_in_is_told_at_the_check(text: str, said: str) -> None:
    assert refusal(text) == [said]


def test_texts_that_double_again_and_again_are_refused() -> None:
    lines = [f"  a{n + 1}: '${{config.a{n}}}${{config.a{n}}}'" for n in range(60)]
    found = refusal("\n".join(["command: x", "config:", "  a0: abcdefgh", *lines]))
    assert len(found) == 1
    assert "grows too big" in found[0]


def test_lists_that_double_again_and_again_are_refused() -> None:
    lines = [f"  a{n + 1}: ['${{config.a{n}}}', '${{config.a{n}}}']" for n in range(60)]
    found = refusal("\n".join(["command: x", "config:", "  a0: [1]", *lines]))
    assert len(found) == 1
    assert "grows too big" in found[0]


def test_a_long_chain_of_references_is_refused() -> None:
    lines = [f"  a{n + 1}: '${{config.a{n}}}'" for n in range(5000)]
    found = refusal("\n".join(["command: x", "config:", "  a0: 1", *lines]))
    assert len(found) == 1
    assert "more than 64 deep" in found[0]


def test_a_text_of_nothing_but_wrong_placeholders_is_cut_short() -> None:
    wrong = "".join(f"${{config.a{n}}}" for n in range(20_000))
    assert len(refusal(f"command: '{wrong}'\nconfig: {{b: 1}}")) == 100


def test_a_big_config_with_one_placeholder_is_no_bomb() -> None:
    job = load_data({"command": "x", "config": {"n": list(range(100_000)), "a": "${job.id}"}})
    assert resolve(job, id="j-1", name="j").config["a"] == "j-1"
