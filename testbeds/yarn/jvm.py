"""How Java runs Hadoop's daemons: command lines and environments. Starts nothing itself."""

import os
from dataclasses import dataclass
from pathlib import Path

from testbeds.yarn import plan as plans
from testbeds.yarn.jars import Java
from testbeds.yarn.plan import Plan

# Without Hadoop's native library a node runs a chmod for each file it unpacks, tens of thousands
# for a large environment: VFORK halves what a process costs. A quarter of what a start costs is the
# checking of classes, which are Hadoop's own here.
OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
           "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote",
           "-Djava.net.preferIPv4Stack=true",
           "-Djdk.lang.Process.launchMechanism=VFORK")  # fmt: skip


@dataclass(frozen=True)
class Jvm:
    """Java with Hadoop's jars, and what is to be done about classes: list those that are loaded,
    map them from an archive, or neither."""

    java: Java
    place: Path  # what `jars.fetch` gave
    listed: Path | None = None  # a directory: one list for each daemon
    archive: Path | None = None

    @property
    def hadoop(self) -> str:
        return self.place.name.removeprefix("hadoop-")

    def daemon(self, plan: Plan, daemon: str) -> list[str]:
        options = [f"-Djava.io.tmpdir={plan.data(daemon)}/tmp", f"-Dhadoop.log.dir={plan.dir}/logs"]
        if self.listed is not None:
            options.append(f"-XX:DumpLoadedClassList={self.listed / daemon}")
        elif self.archive is not None:
            options.append(f"-XX:SharedArchiveFile={self.archive}")
        # An archive is of the jars at the beginning of the class path.
        classpath = f"{self.jars}:{self.place}:{plan.conf(daemon)}"
        return self.java.command(classpath, plans.main_class(daemon), *OPTIONS, *options)

    def dump(self, classes: Path, archive: Path) -> list[str]:
        """Lays out the classes of a list as they are mapped later, by a Java with these options."""
        java = f"{self.java.home}/bin/java"
        lists = (f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}")
        return [java, "-Xshare:dump", *OPTIONS, *lists, "-cp", self.jars]

    @property
    def jars(self) -> str:
        """In the same order each time, which archives go by."""
        return ":".join(str(jar) for jar in sorted((self.place / "jars").glob("*.jar")))


def environment(conf: str, java_home: str) -> dict[str, str]:
    """Nothing of the caller's own Hadoop, and no secrets, reach a daemon or its containers."""
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "USER", "LANG") if name in os.environ
    }
    return {**kept, "HADOOP_CONF_DIR": conf, "JAVA_HOME": java_home}
