"""An API server's answers as errors that people understand."""

import pytest

from dromon.engines.kubernetes.refusals import (
    ApiError,
    Conflict,
    Gone,
    Invalid,
    NotAllowed,
    NotFound,
    NotStarted,
    OverQuota,
    refusal,
)
from dromon.engines.kubernetes.volcano import JOB, POD


def status(code, message, reason="", **details):
    return refusal(code, {"message": message, "reason": reason, "details": details}, kind=POD)


def test_rights_for_the_whole_cluster_and_for_paths():
    error = status(
        403,
        'nodes is forbidden: User "system:serviceaccount:a:b" cannot list resource "nodes" in API'
        ' group "" at the cluster scope',
    )
    assert str(error) == "system:serviceaccount:a:b may not list nodes in the whole cluster"
    assert 'a ClusterRole with {apiGroups: [""], resources: [nodes], verbs: [list]}' in error.hint
    error = status(403, 'forbidden: User "bob" cannot get path "/metrics"')
    assert str(error) == "bob may not get /metrics"


def test_a_used_up_quota_has_its_numbers():
    error = status(
        403,
        'pods "x-0" is forbidden: exceeded quota: small, requested: requests.cpu=1, used:'
        " requests.cpu=4, limited: requests.cpu=4",
    )
    assert isinstance(error, OverQuota)
    assert str(error) == (
        "quota small of the namespace is used up: requests.cpu=1 asked for, requests.cpu=4 in use,"
        " requests.cpu=4 allowed"
    )


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (
            'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged (x)',
            Invalid,
            "the namespace's security rules do not allow it: violates PodSecurity",
        ),
        (
            'configmaps "a" is forbidden: unable to create new content in namespace x because it is'
            " being terminated",
            NotAllowed,
            "the namespace is being deleted",
        ),
        ("something else", NotAllowed, "something else"),
    ],
)
def test_what_is_forbidden_for_other_reasons(said, kind, words):
    error = status(403, said, "Forbidden")
    assert type(error) is kind
    assert str(error).startswith(words)


def test_wrong_fields_are_named_without_what_go_prints():
    error = status(
        422,
        'Job.batch "x" is invalid: [...]',
        "Invalid",
        causes=[
            {
                "field": "spec.template.spec.containers[0].image",
                "message": "Required value",
            },
            {
                "field": "spec.template",
                "message": 'Invalid value: core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:""}}:'
                " field is immutable",
            },
            {"field": "spec.completions", "message": "Invalid value: -1: must be at least 0"},
            {
                "field": "spec.mode",
                "message": 'Unsupported value: "x": supported values: "a", "b"',
            },
            {"field": "spec.mode", "message": 'Unsupported value: "x": supported values: "a", "b"'},
            {"field": "<nil>", "message": "Invalid value: null"},
        ],
    )
    assert isinstance(error, Invalid)
    assert str(error) == (
        "spec.template.spec.containers[0].image: Required value; spec.template: field is immutable;"
        " spec.completions: Invalid value: -1: must be at least 0;"
        ' spec.mode: Unsupported value: "x": supported values: "a", "b"'
    )


def test_unknown_fields_and_large_objects():
    error = status(
        400,
        'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: unknown field'
        ' "spec.taks", unknown field "spec.x"',
        "BadRequest",
    )
    assert isinstance(error, Invalid)
    assert str(error) == "unknown field `spec.taks`, unknown field `spec.x`"
    error = status(413, "Request entity too large: limit is 3145728")
    assert isinstance(error, Invalid)
    assert "3145728" in str(error)


@pytest.mark.parametrize("code", [400, 403, 422, 500])
def test_a_denial_is_one_whatever_its_code(code):
    error = status(
        code,
        'admission webhook "policy.site.example" denied the request: \n  images must\n come from x',
    )
    assert isinstance(error, Invalid)
    assert str(error) == "policy.site.example denies it: images must come from x"
    assert "administrator" in error.hint
    bare = status(
        code, 'admission webhook "validatejob.volcano.sh" denied the request without explanation'
    )
    assert str(bare) == "validatejob.volcano.sh denies it: it gives no reason"
    assert "dromon plan" in bare.hint


def test_a_policy_that_denies():
    error = status(
        422,
        "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request:"
        " failed expression: object.spec.replicas <= 5",
    )
    assert str(error) == "p denies it: failed expression: object.spec.replicas <= 5"


def test_what_is_not_there():
    error = status(404, 'pods "x" not found', "NotFound", name="x", kind="pods")
    assert type(error) is NotFound
    assert (str(error), error.names_object) == ("there is no Pod x", True)
    assert not refusal(404, None, "404 page not found\n", JOB).names_object  # type: ignore[attr-defined]


def test_the_rest():
    assert isinstance(status(410, "too old resource version: 1 (9)", "Expired"), Gone)
    assert isinstance(status(409, "the object has been modified", "Conflict"), Conflict)
    assert isinstance(
        status(400, 'container "main" in pod "x" is waiting to start: Init'), NotStarted
    )
    error = refusal(418, None, "")
    assert type(error) is ApiError
    assert (str(error), error.code, error.reason) == (
        "the API server answers 418: error 418",
        418,
        "",
    )
    assert len(str(refusal(500, None, "x" * 100_000))) < 2100
