"""Which of several ResourceManagers is active, said as an administrator says it."""

import getpass

from dromon.hadoop import addresses
from dromon.hadoop.protobuf import ENUM, Table, need
from dromon.hadoop.protocol import Protocol
from dromon.hadoop.sasl import Simple
from dromon.hadoop.transport import RpcClient
from testbeds.yarn.plan import Plan

BY_USER = 0
_ORDER = Table("TransitionRequestProto", need(1, "info", Table("Info", need(1, "source", ENUM))))
_DONE = Table("TransitionResponseProto")
AVAILABILITY = Protocol(
    "org.apache.hadoop.ha.HAServiceProtocol",
    dict.fromkeys(("transitionToActive", "transitionToStandby"), (_ORDER, _DONE)),
)


def ask(plan: Plan, daemon: str, method: str) -> None:
    where = addresses.parse(plan.address(daemon, "admin"), 0)
    client = RpcClient(AVAILABILITY, [where], Simple(getpass.getuser()), what="ResourceManager")
    try:
        client.call(method, {"info": {"source": BY_USER}})
    finally:
        client.close()
