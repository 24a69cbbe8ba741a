"""The master's door: who may look, who may order, and what a page may hold."""

import base64
import http.client
import json
import time

import pytest
from stage import KEY, until

from dromon.coordinator import web as module
from dromon.coordinator.proof import HEADER, MARK, is_proven, proof
from dromon.coordinator.web import Web, page

NOW = 1_000_000.0


def test_a_proof_is_good_for_its_request_alone():
    given = proof(KEY, "POST", "/stop", b"{}", NOW)
    assert is_proven(given, KEY, "POST", "/stop", b"{}", NOW + 10)
    assert not is_proven(given, b"another key", "POST", "/stop", b"{}", NOW)
    assert not is_proven(given, KEY, "GET", "/stop", b"{}", NOW)
    assert not is_proven(given, KEY, "POST", "/status.json", b"{}", NOW)
    assert not is_proven(given, KEY, "POST", "/stop", b'{"grace": 0}', NOW)
    assert not is_proven(given, KEY, "POST", "/stop?x", b"{}", NOW)


def test_a_proof_does_not_last_for_ever():
    given = proof(KEY, "GET", "/", b"", NOW)
    assert is_proven(given, KEY, "GET", "/", b"", NOW - 299)
    assert not is_proven(given, KEY, "GET", "/", b"", NOW + 301)
    assert not is_proven(given, KEY, "GET", "/", b"", NOW - 301)
    later = given.replace(str(int(NOW)), str(int(NOW) + 400))
    assert not is_proven(later, KEY, "GET", "/", b"", NOW + 400)


@pytest.mark.parametrize(
    "given", ["", ":", "x:y", "²:00", "1000000:é", "9" * 5000 + ":00", "-1:00"]
)
def test_what_is_no_proof_at_all_is_refused(given):
    assert not is_proven(given, KEY, "GET", "/", b"", NOW)


class Door:
    def __init__(self, job, proxies, **how):
        self.job = job
        self.web = Web(job.master, KEY, proxies, **how)
        self.web.start()

    def ask(self, method, path, body=b"", key=KEY, headers=None, now=None):
        """Status and body. `key` None: without a proof."""
        line = http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=20)
        sent = dict(headers or {})
        if key is not None:
            sent[HEADER] = proof(key, method, path, body, now or time.time())
        line.request(method, path, body or None, sent)
        answer = line.getresponse()
        self.headers = dict(answer.getheaders())
        found = answer.status, answer.read()
        line.close()
        return found


@pytest.fixture
def door(stage):
    made = []

    def open_(proxies=(), begin=True, patience=20.0, **keys):
        job = stage(begin=begin, **{"replicas": 1, **keys})
        made.append(Door(job, list(proxies), patience=patience))
        return made[-1]

    yield open_
    for one in made:
        one.web.stop()
        one.web._server.server_close()


def test_the_status_is_told_to_whoever_has_the_key(door):
    it = door()
    status, body = it.ask("GET", "/status.json")
    assert status == 200
    assert json.loads(body)["state"] == "queued"
    assert it.headers[MARK] == "train-aaaaaa"


@pytest.mark.parametrize("path", ["/", "/status.json", "/logs/worker-0.1.log", "/nothing"])
def test_nobody_else_is_told_anything(door, path):
    it = door()
    assert it.ask("GET", path, key=None)[0] == 403
    assert it.ask("GET", path, key=b"guess")[0] == 403
    assert it.ask("GET", path, now=time.time() - 1000)[0] == 403
    assert it.headers[MARK] == "train-aaaaaa"


def test_yarns_proxy_may_look_and_give_no_orders(door):
    it = door(proxies=["127.0.0.1", "no.such.host.invalid"])
    assert it.ask("GET", "/", key=None)[0] == 200
    assert it.ask("GET", "/status.json", key=None)[0] == 200
    assert it.ask("POST", "/stop", b"{}", key=None)[0] == 403
    assert it.job.state() == "queued"


def test_a_stop_is_carried_out(door):
    it = door()
    it.job.run(1)
    body = json.dumps({"by": "ann", "grace": 3}).encode()
    assert it.ask("POST", "/stop", body) == (200, b"{}")
    assert it.job.agents[0].wait("stop")["grace"] == 3
    assert it.job.wait_kind("StopRequested")["by"] == "ann"


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"grace": "soon"}', b"\xff\xfe"])
def test_an_order_that_is_not_understood_is_none(door, body):
    it = door()
    assert it.ask("POST", "/stop", body)[0] == 400
    assert it.job.state() == "queued"


def test_a_body_without_a_true_length_is_refused(door):
    it = door()
    for length in ("-1", "x", str(10**9)):
        assert it.ask("POST", "/stop", headers={"Content-Length": length})[0] == 400


def test_there_is_nothing_else(door):
    it = door()
    assert it.ask("GET", "/nothing")[0] == 404
    assert it.ask("POST", "/nothing", b"{}")[0] == 404
    assert it.ask("GET", "/logs/worker-0.1.log?offset=x")[0] == 400


def test_a_log_comes_from_the_agent_that_writes_it(door):
    it = door()
    (agent,) = it.job.run(1)
    import threading

    def answer():
        asked = agent.wait("read")
        data = base64.b64encode(b"456").decode()
        agent.say({"op": "data", "id": asked["id"], "offset": 3, "data": data})

    thread = threading.Thread(target=answer)
    thread.start()
    assert it.ask("GET", "/logs/worker-0.1.log?offset=3") == (200, b"456")
    thread.join()
    asked = agent.of("read")[0]
    assert (asked["name"], asked["offset"]) == ("worker-0.1.log", 3)


def test_a_log_that_nobody_has_is_not_there(door):
    it = door()
    (agent,) = it.job.run(1)
    assert it.ask("GET", "/logs/worker-9.1.log")[0] == 404
    import threading

    def answer():
        asked = agent.wait("read")
        agent.say({"op": "data", "id": asked["id"], "offset": 0, "data": "", "missing": True})

    thread = threading.Thread(target=answer)
    thread.start()
    assert it.ask("GET", "/logs/worker-0.7.log")[0] == 404
    thread.join()


def test_a_log_whose_agent_leaves_meanwhile_is_not_there(door):
    it = door()
    (agent,) = it.job.run(1)
    import threading

    def leave():
        agent.wait("read")
        agent._sock.shutdown(2)

    thread = threading.Thread(target=leave)
    thread.start()
    assert it.ask("GET", "/logs/worker-0.1.log")[0] == 404
    thread.join()


def test_a_master_that_does_not_answer_is_said_to_be_silent(door):
    it = door(begin=False, patience=0.05)
    status, body = it.ask("GET", "/status.json")
    assert status == 504
    assert b"did not answer" in body


# ---- the page -----------------------------------------------------------------------------------


def test_the_page_shows_the_members(door):
    it = door()
    it.job.run(1)
    status, body = it.ask("GET", "/")
    text = body.decode()
    assert status == 200
    assert "train-aaaaaa" in text
    assert "worker-0" in text
    assert "logs/worker-0.1.log" in text
    assert "refresh" in text


def test_nothing_that_people_or_programs_wrote_is_markup_in_the_page(door):
    it = door()
    it.job.run(1)
    found = it.job.status()
    evil = "<script>alert('\"&')</script>"
    found["trouble"] = found["state"] = evil
    found["missing"] = {evil: 1}
    found["verdict"] = {"message": evil, "last_lines": [evil]}
    found["members"][0].update(node=evil, state=evil, member=evil, host=evil)
    for verdict in (found["verdict"], None):
        text = page({**found, "verdict": verdict})
        assert "<script" not in text
        assert "alert('" not in text


def test_the_page_of_a_job_that_is_over_rests(door):
    it = door()
    found = {**it.job.status(), "ended": 5.0}
    assert "refresh" not in page(found)


def test_the_page_says_what_is_waited_for(door):
    it = door(replicas=3)
    until(lambda: it.job.left() == 3, "the ask")
    assert "Waits for containers: 3 worker; has 0." in page(it.job.status())
    assert module.ANSWER > 0
