"""Errors cross a socket and stay what they are."""

import json

import pytest

from dromon import errors
from dromon.errors import (
    BY_NAME,
    DromonError,
    EngineError,
    JobFileError,
    Problem,
    from_json,
)


def classes(kind: type = DromonError) -> list[type]:
    found = [kind]
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            found += classes(each)
    return found


@pytest.mark.parametrize("kind", [c for c in classes() if c is not JobFileError])
def test_every_class_comes_back_as_itself_with_its_words(kind):
    sent = json.loads(json.dumps(kind("what went wrong", hint="what to do").to_json()))
    back = from_json(sent)
    assert type(back) is kind
    assert (back.message, back.hint, back.exit_code) == (
        "what went wrong", "what to do", kind.exit_code
    )  # fmt: skip


def test_a_job_file_error_comes_back_with_every_problem_and_its_place():
    problems = [
        Problem("job.yaml", 7, 5, "roles.w.resorces", "unknown key", "did you mean resources?"),
        Problem("job.yaml", 0, 0, "", "is empty"),
    ]
    back = from_json(json.loads(json.dumps(JobFileError(problems).to_json())))
    assert isinstance(back, JobFileError)
    assert [str(p) for p in back.problems] == [
        "job.yaml:7:5: roles.w.resorces: unknown key; did you mean resources?",
        "job.yaml: is empty",
    ]
    assert back.message == "\n".join(str(p) for p in problems)
    assert back.hint == JobFileError.hint


def test_a_class_of_a_newer_version_is_still_an_error():
    back = from_json({"error": "Unheard", "message": "of", "hint": "h"})
    assert (type(back), back.message, back.hint) == (EngineError, "of", "h")
    assert type(from_json({})) is EngineError


def test_every_class_of_the_tree_is_drawn_and_can_be_sent():
    assert set(BY_NAME) | {"JobFileError"} == {c.__name__ for c in classes()}
    for kind in classes():
        assert kind.__name__ in (errors.__doc__ or "")


def test_without_words_of_its_own_an_error_says_what_its_class_means():
    assert errors.JobNotFound().message == "No such job."
    assert errors.JobNotFound().hint == errors.JobNotFound.hint


def test_exit_codes_tell_the_users_mistakes_from_ours():
    assert errors.UsageError.exit_code == errors.JobNotFound.exit_code == 64
    assert errors.Refused.exit_code == errors.EnvironmentFailed.exit_code == 65
    assert errors.EngineError.exit_code == errors.DaemonUnreachable.exit_code == 69
    assert errors.JobFailed.exit_code == 1
