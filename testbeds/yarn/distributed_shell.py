"""Hadoop's own distributed shell on a bed: a program of others that shows what the bed can do."""

import re
import subprocess
from dataclasses import dataclass

from dromon.errors import EngineError
from testbeds.yarn import jars
from testbeds.yarn.bed import Bed
from testbeds.yarn.jvm import environment

CLIENT = "org.apache.hadoop.yarn.applications.distributedshell.Client"


@dataclass(frozen=True)
class Application:
    id: str
    succeeded: bool
    said: str


def run(
    bed: Bed,
    command: str,
    *,
    containers: int = 1,
    memory: int = 64,
    more: tuple[str, ...] = (),
    seconds: float = 120,
) -> Application:
    """Runs `command` in so many containers and waits; `more` are further words for its client."""
    client = start(bed, command, containers=containers, memory=memory, more=more)
    try:
        said, _ = client.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        client.kill()
        client.communicate()
        raise EngineError(f"The distributed shell did not end in {seconds:.0f} s.") from None
    found = re.search(r"application_\d+_\d+", said)
    if found is None:
        raise EngineError(f"The distributed shell did not submit: {said[-2000:]}")
    return Application(id=found[0], succeeded=client.returncode == 0, said=said)


def start(
    bed: Bed,
    command: str,
    *,
    containers: int = 1,
    memory: int = 64,
    more: tuple[str, ...] = (),
) -> "subprocess.Popen[str]":
    """As `run`, without waiting. The client ends when the application does."""
    plan = bed.plan
    java = jars.find_java()
    place = jars.fetch(plan.options.hadoop, lambda line: None)
    artifact, version = jars.DISTRIBUTED_SHELL
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
    words = [
        *java.command(f"{plan.conf()}:{place}/jars/*", CLIENT, *options),
        *("-jar", f"{place}/jars/{artifact}-{version}.jar"),
        *("-shell_command", command),
        *("-num_containers", str(containers)),
        *("-master_memory", "256", "-container_memory", str(memory)),
        *more,
    ]
    return subprocess.Popen(
        words,
        env=environment(plan.conf(), java.home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
