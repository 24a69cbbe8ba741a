"""The ApplicationMaster's start and its end: what is around `Master`.

    python -I -S light.pyz yarn-master

It ends with 0 once YARN has been told how the job ended, or a later attempt has taken over; any
other end is a crash, and YARN starts the next attempt.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from dromon.coordinator.web import Web
from dromon.engines.yarn.am import side
from dromon.engines.yarn.am.asks import Asks, Size, Want
from dromon.engines.yarn.am.beats import Beats
from dromon.engines.yarn.am.board import Board
from dromon.engines.yarn.am.gathering import Gathering, Patience
from dromon.engines.yarn.am.journal import Journal
from dromon.engines.yarn.am.launch import REQUEST
from dromon.engines.yarn.am.master import Master
from dromon.engines.yarn.am.nodes import Nodes
from dromon.engines.yarn.am.scheduler import Scheduler
from dromon.engines.yarn.am.scribe import Scribe
from dromon.engines.yarn.am.secrets import Secrets, load_secrets
from dromon.hadoop import addresses, ids, site, token
from dromon.hadoop.failover import Policy
from dromon.hadoop.messages.enums import FinalStatus
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.transport import RpcClient
from dromon.hadoop.webhdfs import WebHdfs
from dromon.lifecycle import states
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan

# A ResourceManager that is back gives up masters that do not come soon.
PERSISTENT = Policy(cap=5.0)
LAST_WRITES = 60.0  # seconds for the journal's end


def main() -> int:
    with open(REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    secrets = load_secrets()
    container = ids.parse_container(os.environ["CONTAINER_ID"])
    attempt = int(container["app_attempt_id"]["attempt_id"])
    host = os.environ["NM_HOST"]
    cluster = request["cluster"]
    hdfs = WebHdfs(cluster["webhdfs"], cluster["user"], secrets.hdfs_token)

    asks = Asks(_wants(request), constraints=cluster["constraints"])
    scheduler = Scheduler(_client(cluster, secrets), asks)
    born = int(os.environ.get("APP_SUBMIT_TIME_ENV", "0")) / 1000
    plan = GangPlan.from_json(request["gang"])
    nodes = Nodes()
    master = Master(
        request,
        gang=Gang(plan, prepared=True),
        gathering=Gathering(Patience(**request["patience"]), born),
        epoch=attempt,
        host=host,
        key=secrets.key,
        tokens=secrets.for_members(),
        nodes=nodes,
    )
    record = str(cluster["record"])
    journal = Journal(hdfs, record, attempt, master.on_durable, master.on_superseded)
    # A crash would use up an attempt; and YARN waits so long for the first word of this one.
    patient = WebHdfs(
        cluster["webhdfs"], cluster["user"], secrets.hdfs_token, patience=0.8 * request["expiry"]
    )
    master.recover(journal.open(patient))
    master.journal = journal
    scribe = Scribe(hdfs, record)
    scribe.write_now("coordinator.json", {"address": master.address, "epoch": attempt})
    master.on_state = lambda: scribe.write("status.json", master.status())

    web = Web(master, secrets.key, cluster["proxies"], Board(hdfs, record))
    web.start()
    url = f"http://{host}:{web.port}/"
    registration = scheduler.register(host, web.port, url)
    nodes.learn(registration.tokens)
    strange = master.containers.adopt(registration)
    unknown = asks.unknown(registration.types) if registration.answered else {}
    for container_id in strange:
        asks.release(container_id)
    for held in registration.containers:
        if held.id not in strange:
            asks.adopt(held)
    first = scheduler_first(master, scheduler, asks) if attempt > 1 else None
    beats = Beats(scheduler, asks, master.on_news, master.on_end_of_beats)
    master.beats = beats
    if first is not None:
        master.on_news(first)
    beats.start()
    if unknown:
        master.post(lambda: _refuse_unknown(master, unknown))
    if master.gang.is_terminal:
        master.close_again()

    master.run()
    if master.superseded:
        print(f"leaving: {master.superseded}", file=sys.stderr)
        nodes.close()
        return 0
    beats.stop()
    journal.close(LAST_WRITES)
    scribe.close(LAST_WRITES, {"status.json": master.status()})
    scheduler.finish(*_last_word(master))
    web.stop()
    nodes.close()
    return 0


def scheduler_first(master: Master, scheduler: Scheduler, asks: Asks) -> Any:
    """What ended between two attempts is told in the first answer; what is told neither there nor
    at registration is lost."""
    from dromon.engines.yarn.am.beats import News

    heard = scheduler.allocate()
    for done in heard.completed:
        asks.completed(done.id)
    seen = {done.id for done in heard.completed} | {c.id for c in heard.previous}
    master.post(lambda: master.containers.missing_after(seen))
    return News(heard)


def _wants(request: Mapping[str, Any]) -> list[Want]:
    wants = [
        Want(
            role=name,
            priority=number,
            size=Size(**role["container"]),
            label=role["label"] or "",
            spread=role["spread"] == "node",
            hosts=tuple(role["hosts"]),
            racks=tuple(role["racks"]),
            strict=role["strict"],
        )
        for number, (name, role) in enumerate(request["roles"].items(), 1)
    ]
    if request["tensorboard"]:
        wants.append(Want(side.ROLE, len(wants) + 1, Size(**request["side"])))
    return wants


def _client(cluster: Mapping[str, Any], secrets: Secrets) -> RpcClient:
    (own,) = secrets.credentials.of_kind(token.AM_RM)
    servers = [addresses.parse(text, addresses.SCHEDULER_PORT) for text in cluster["scheduler"]]
    who = _proxy() or servers
    return RpcClient(APPLICATION_MASTER, who, own, what="ResourceManager", policy=PERSISTENT)


def _proxy() -> list[addresses.Address]:
    """Under federation the NodeManager stands between a master and the ResourceManagers, and has
    given it a token that only itself understands."""
    folder = os.environ.get("HADOOP_CONF_DIR", "")
    try:
        with open(os.path.join(folder, "yarn-site.xml"), encoding="utf-8") as file:
            found = site.load({"yarn-site.xml": file.read()}, dict(os.environ), {})
    except (OSError, site.SiteFileError):
        return []
    if not found.flag("yarn.nodemanager.amrmproxy.enabled"):
        return []
    here = os.environ["NM_HOST"]
    text = found.get("yarn.nodemanager.amrmproxy.address", "0.0.0.0:8049")
    return [addresses.parse(text, 8049, here)]


def _refuse_unknown(master: Master, unknown: Mapping[str, tuple[str, ...]]) -> None:
    from dromon.lifecycle import events as ev

    words = "; ".join(f"{role} asks for {', '.join(types)}" for role, types in unknown.items())
    master.happen(
        ev.PrepareFailed("impossible", f"the cluster does not know this resource: {words}")
    )


def _last_word(master: Master) -> tuple[FinalStatus, str]:
    gang = master.gang
    verdict = gang.verdict
    assert verdict is not None
    if gang.state == states.SUCCEEDED:
        return FinalStatus.SUCCEEDED, verdict.message
    words = [verdict.message, *verdict.last_lines[-5:]]
    if verdict.member and verdict.rank is not None:
        words.insert(0, f"{verdict.cause} in {verdict.member} (rank {verdict.rank})")
    status = FinalStatus.KILLED if gang.state == states.STOPPED else FinalStatus.FAILED
    return status, "\n".join(word for word in words if word)


if __name__ == "__main__":
    sys.exit(main())
