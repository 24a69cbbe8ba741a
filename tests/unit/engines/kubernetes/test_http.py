"""Api against a server that speaks the real bytes."""

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from apiserver import (
    ACT_AND_HANG_UP,
    HANG_UP,
    Answer,
    ApiServer,
    status,
)

from dromon.engines.kubernetes.access import Server
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NoSuchKind,
    NotAllowed,
    NotFound,
    NotStarted,
    NoVolcano,
    PodSilent,
    Unreachable,
)
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, PLAIN_JOB, POD, QUEUE

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api(make_api: Callable[..., Api]) -> Api:
    return make_api()


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}}


# --- objects


def test_an_object_is_made_read_changed_and_deleted(api: Api):
    made = api.create(CONFIG_MAP, "default", {"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert made["metadata"]["namespace"] == "default"
    assert made["kind"] == "ConfigMap"
    assert made["apiVersion"] == "v1"
    assert api.patch(CONFIG_MAP, "default", "a", {"data": {"y": "2"}})["data"] == {
        "x": "1",
        "y": "2",
    }
    found = api.read(CONFIG_MAP, "default", "a")
    assert found is not None
    assert found["data"] == {"x": "1", "y": "2"}
    assert api.delete(CONFIG_MAP, "default", "a") is True
    assert api.read(CONFIG_MAP, "default", "a") is None
    assert api.delete(CONFIG_MAP, "default", "a") is False


def test_apply_makes_or_changes_and_can_be_repeated(api: Api):
    body = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    first = api.apply(CONFIG_MAP, "default", body)
    second = api.apply(CONFIG_MAP, "default", {**body, "data": {"x": "2"}})
    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    assert second["data"] == {"x": "2"}


def test_a_dry_run_leaves_nothing(api: Api):
    api.create(POD, "default", pod("a"), dry_run=True)
    api.apply(POD, "default", pod("b"), dry_run=True)
    assert api.list(POD, "default") == []


def test_a_list_has_all_pages_and_nothing_of_who_manages_fields(api: Api, plain_server: ApiServer):
    for number in range(7):
        plain_server.put(PODS, pod(f"p{number}", labels={"odd": str(number % 2)}))
    found = api.list(POD, "default", limit=3)
    assert [item["metadata"]["name"] for item in found] == [f"p{n}" for n in range(7)]
    assert not any("managedFields" in item["metadata"] for item in found)
    assert api.verbs == {"list": 3}
    assert len(api.list(POD, labels="odd=1")) == 3
    assert len(api.list(POD, fields="metadata.name=p3")) == 1
    names = api.list(POD, "default", keep=lambda item: {"name": item["metadata"]["name"]})
    assert names[0] == {"name": "p0"}


def test_a_large_list_leaves_the_collector_as_it_was(api: Api, plain_server: ApiServer):
    for number in range(60):
        plain_server.put(PODS, {**pod(f"p{number}"), "spec": {"text": "x" * 10_000}})
    for is_on in (True, False):
        (gc.enable if is_on else gc.disable)()
        try:
            assert len(api.list(POD, "default")) == 60
            assert gc.isenabled() is is_on
        finally:
            gc.enable()


def test_a_list_whose_place_was_lost_begins_anew(api: Api, plain_server: ApiServer):
    for number in range(4):
        plain_server.put(PODS, pod(f"p{number}"))
    plain_server.say(
        Answer(
            200,
            {"metadata": {"resourceVersion": "1", "continue": "2-1"}, "items": [pod("lost")]},
        ),
        status(410, "Expired", "too old"),
    )
    assert [i["metadata"]["name"] for i in api.list(POD, "default", limit=1)] == [
        f"p{n}" for n in range(4)
    ]


def test_deleting_by_label_leaves_the_others(api: Api, plain_server: ApiServer):
    for number in range(4):
        plain_server.put(PODS, pod(f"p{number}", labels={"odd": str(number % 2)}))
    assert api.delete_all(POD, "default", "odd=1") == 2
    assert len(api.list(POD, "default")) == 2
    with pytest.raises(ValueError, match="never meant"):
        api.delete_all(POD, "default", "")


def test_only_the_very_one_is_deleted(api: Api, plain_server: ApiServer):
    made = plain_server.put(PODS, pod("a"))
    with pytest.raises(Conflict):
        api.delete(POD, "default", "a", uid="another")
    assert api.delete(POD, "default", "a", uid=made["metadata"]["uid"], grace=0)
    sent = plain_server.requests[-1].data
    assert sent["gracePeriodSeconds"] == 0
    assert sent["propagationPolicy"] == "Background"


def test_names_from_people_do_not_leave_their_place(api: Api, plain_server: ApiServer):
    plain_server.put("/api/v1/namespaces/default/secrets", pod("a"))
    with pytest.raises(ApiError):
        api.get("/nowhere")
    assert api.read(POD, "default", "../secrets/a") is None
    assert plain_server.requests[-1].path.endswith("/pods/..%2Fsecrets%2Fa")


# --- refusals


def test_what_exists_already_is_said_so(api: Api, plain_server: ApiServer):
    plain_server.put(PODS, pod("a"))
    with pytest.raises(AlreadyExists, match="pods a exists already"):
        api.create(POD, "default", pod("a"))


def test_a_cluster_without_volcano_is_told_from_a_missing_job(api: Api, plain_server: ApiServer):
    assert api.read(JOB, "default", "a") is None
    plain_server.groups -= {"batch.volcano.sh", "scheduling.volcano.sh", "batch"}
    with pytest.raises(NoVolcano, match="this cluster has no Volcano") as caught:
        api.read(JOB, "default", "a")
    assert "install" in caught.value.hint
    for call in (
        lambda: api.list(QUEUE),
        lambda: api.create(JOB, "default", pod("a")),
        lambda: api.delete(JOB, "default", "a"),
    ):
        with pytest.raises(NoVolcano):
            call()
    with pytest.raises(NoSuchKind):
        api.list(PLAIN_JOB, "default")


def test_a_namespace_that_is_not_there_is_named(api: Api, plain_server: ApiServer):
    answer = status(
        404, "NotFound", 'namespaces "nowhere" not found', name="nowhere", kind="namespaces"
    )
    plain_server.say(answer, answer)
    with pytest.raises(NotFound, match="there is no namespace nowhere"):
        api.create(POD, "nowhere", pod("a"))
    with pytest.raises(NotFound):
        api.read(POD, "nowhere", "a")


def test_who_may_not_do_what_is_said_with_the_rule_that_lacks(api: Api, plain_server: ApiServer):
    said = (
        'jobs.batch.volcano.sh is forbidden: User "bob" cannot create resource "jobs" in API group'
        ' "batch.volcano.sh" in the namespace "team"'
    )
    plain_server.say(status(403, "Forbidden", said))
    with pytest.raises(NotAllowed, match=r"^bob may not create jobs in namespace team$") as caught:
        api.create(JOB, "team", pod("a"))
    assert 'apiGroups: ["batch.volcano.sh"], resources: [jobs], verbs: [create]' in (
        caught.value.hint
    )
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


def test_an_answer_that_is_no_api_servers_is_said_so(api: Api, plain_server: ApiServer):
    plain_server.say(Answer(200, "<html>log in</html>"), Answer(302, "", {"Location": "/login"}))
    with pytest.raises(ApiError, match="answers as no API server does"):
        api.list(POD, "default")
    with pytest.raises(ApiError, match="/login"):
        api.list(POD, "default")


# --- patience


def test_a_server_that_asks_for_patience_gets_it(api: Api, plain_server: ApiServer):
    busy = status(429, "TooManyRequests", "too many requests")
    busy.headers["Retry-After"] = "1"
    plain_server.say(busy, status(503, "ServiceUnavailable", "starting"))
    assert api.create(POD, "default", pod("a"))["metadata"]["name"] == "a"
    assert api.verbs == {"create": 3}
    assert api.requests == 3


def test_errors_that_pass_are_waited_for(api: Api, plain_server: ApiServer):
    plain_server.say(*(status(code, "InternalError", "no") for code in (500, 502, 504)))
    assert api.list(POD, "default") == []


def test_a_create_whose_fate_is_unknown_is_not_repeated_unless_asked(
    api: Api, plain_server: ApiServer
):
    plain_server.say(ACT_AND_HANG_UP)
    with pytest.raises(Unreachable):
        api.create(POD, "default", pod("a"))
    assert api.read(POD, "default", "a") is not None
    plain_server.say(ACT_AND_HANG_UP)
    with pytest.raises(AlreadyExists):
        api.create(POD, "default", pod("b"), repeatable=True)
    plain_server.say(status(500, "InternalError", "etcd timed out"))
    with pytest.raises(ApiError, match="etcd timed out"):
        api.create(POD, "default", pod("c"))


def test_a_webhook_that_is_away_is_waited_for(api: Api, plain_server: ApiServer):
    said = (
        'Internal error occurred: failed calling webhook "mutatejob.volcano.sh": connection refused'
    )
    plain_server.say(status(500, "InternalError", said))
    assert api.create(JOB, "default", pod("a"))


def test_a_connection_that_idled_too_long_is_replaced_at_once(
    make_api: Callable[..., Api], plain_server: ApiServer
):
    api = make_api(patience=0.0)
    assert api.list(POD, "default") == []
    plain_server.say(HANG_UP)
    assert api.list(POD, "default") == []
    plain_server.cut()
    assert api.list(POD, "default") == []
    assert api.connections == 3


def test_a_server_that_never_answers_is_named_with_where_it_was_found(
    make_api: Callable[..., Api], plain_server: ApiServer
):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        free = sock.getsockname()[1]
    nobody = Server(f"http://127.0.0.1:{free}", "http", "127.0.0.1", free, "")
    with pytest.raises(Unreachable, match=f"127.0.0.1:{free} does not answer: connection") as c:
        make_api(reached=nobody, patience=0.3).list(POD)
    assert "context here of config" in c.value.hint
    plain_server.say(*[status(503, "ServiceUnavailable", "no etcd")] * 20)
    with pytest.raises(Unreachable, match=r"503 \(no etcd"):
        make_api(patience=0.3).list(POD)


def test_a_server_that_comes_back_within_patience_is_not_missed(make_api: Callable[..., Api]):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    api = make_api(reached=Server("", "http", "127.0.0.1", port, ""), patience=20.0)

    def answer() -> None:
        time.sleep(0.3)
        with socket.create_server(("127.0.0.1", port)) as late:
            connection, _ = late.accept()
            with connection:
                connection.recv(65536)
                body = b'{"metadata": {"resourceVersion": "1"}, "items": []}'
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                )

    thread = threading.Thread(target=answer)
    thread.start()
    assert api.list(POD) == []
    thread.join()


def test_an_answer_cut_in_the_middle_is_asked_for_again(make_api: Callable[..., Api]):
    body = b'{"metadata": {"resourceVersion": "1"}, "items": []}'
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for text in (whole[:-10], whole):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(text)

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        api = make_api(reached=Server("", "http", "127.0.0.1", port, ""))
        assert api.list(POD) == []
        thread.join()


def test_connections_are_kept_and_shared_by_threads(api: Api, plain_server: ApiServer):
    for _ in range(5):
        api.list(POD, "default")
    assert plain_server.connections == 1
    threads = [
        threading.Thread(
            target=lambda n=n: [api.create(POD, "default", pod(f"p{n}-{i}")) for i in range(10)]
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(api.list(POD, "default")) == 40
    assert plain_server.connections <= 5
    assert api.verbs == {"list": 6, "create": 40}


# --- pods


def test_logs_come_piece_by_piece_and_not_before_there_are_any(api: Api, plain_server: ApiServer):
    with pytest.raises(NotStarted, match="ContainerCreating"):
        api.logs("default", "p", "main")
    plain_server.logs["p"] = [b"one\n", b"two\n"]
    stream = api.logs("default", "p", "main", follow=True, since=86400.5, tail=3, timestamps=True)
    assert b"".join(stream) == b"one\ntwo\n"
    assert plain_server.requests[-1].query == {
        "container": "main", "follow": "true", "sinceTime": "1970-01-02T00:00:00Z",
        "tailLines": "3", "timestamps": "true",
    }  # fmt: skip
    assert plain_server.connections == 1


def test_logs_that_go_on_end_when_closed_from_elsewhere(api: Api, plain_server: ApiServer):
    hold = threading.Event()

    def printed() -> Iterator[bytes]:
        yield b"one\n"
        hold.wait()

    plain_server.logs["p"] = printed()  # type: ignore[assignment]
    stream = api.logs("default", "p", follow=True)
    assert next(stream) == b"one\n"
    threading.Timer(0.1, stream.close).start()
    assert list(stream) == []
    hold.set()


def test_no_lines_of_the_end_are_asked_for_with_zero(api: Api, plain_server: ApiServer):
    plain_server.logs["p"] = []
    list(api.logs("default", "p", tail=0))
    assert plain_server.requests[-1].query == {"tailLines": "0"}


def test_a_page_of_a_pod_is_passed_on_whatever_it_says(api: Api, plain_server: ApiServer):
    def page(request: Any, path: str) -> Answer:
        if path == "/silent":
            return status(503, "ServiceUnavailable", "error trying to reach service: refused")
        if path == "/no":
            return Answer(401, {"error": "who are you"})
        return Answer(200, f"{request.method} {path} {request.body.decode()}", {"X-Job": "j"})

    plain_server.pages = page
    code, headers, body = api.proxy(
        "default", "p", 8471, "POST", "/stop?now=1", b"x", {"X-Proof": "1"}
    )
    assert (code, headers["x-job"], body) == (200, "j", b"POST /stop x")
    sent = plain_server.requests[-1]
    assert sent.path == "/api/v1/namespaces/default/pods/p:8471/proxy/stop"
    assert sent.query == {"now": "1"}
    assert sent.headers["x-proof"] == "1"
    assert api.proxy("default", "p", 8471, path="/no")[0] == 401
    with pytest.raises(PodSilent, match="refused"):
        api.proxy("default", "p", 8471, path="/silent")
    assert len(plain_server.requests) == 3  # nothing was asked twice
    code, _, stream = api.proxy_stream("default", "p", 8471, path="/a")
    assert b"".join(stream) == b"GET /a "


def test_a_denial_of_a_webhook_has_its_words_and_no_code_of_ours(api: Api, plain_server: ApiServer):
    said = 'admission webhook "validatejob.volcano.sh" denied the request: job\'s minAvailable is 0'
    plain_server.say(status(400, "BadRequest", said))
    with pytest.raises(Invalid, match=r"^validatejob.volcano.sh denies it: job's minAvailable"):
        api.create(JOB, "default", pod("a"))
