"""Hadoop's jars from Maven Central, fetched once for each version, and the Java that runs them.

~/.cache/dromon/testbeds/hadoop-VERSION/jars       everything on the class path
~/.cache/dromon/testbeds/hadoop-VERSION/webapps    the pages of NameNode and DataNode
"""

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dromon.errors import EngineError
from testbeds import cache

ARTIFACTS = (
    "hadoop-common",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-client",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-timelineservice",  # the ResourceManager loads a class of it
)
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
# Published for few versions; this one runs with the libraries of 3.4 and of no other.
DISTRIBUTED_SHELL = ("hadoop-yarn-applications-distributedshell", "3.4.2")
OLDEST_JAVA = 11

# What Hadoop reflects into; without java.lang the NodeManager dies at its start.
OPENED = ("java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.text",
          "java.util", "java.util.concurrent", "java.util.zip", "sun.security.util",
          "sun.security.x509")  # fmt: skip

Tell = Callable[[str], None]


class JavaMissing(EngineError):
    """No Java was found."""

    hint = "Install Java 17 (11 serves Hadoop up to 3.4), or set JAVA_HOME."


class MavenMissing(EngineError):
    """Maven is needed once, to fetch Hadoop's jars."""

    hint = "Install Maven, or copy the cache directory from a machine that has it."


class JarsUnavailable(EngineError):
    """Hadoop's jars could not be fetched."""

    hint = "Check the network and Maven's settings; versions are those of Maven Central."


@dataclass(frozen=True)
class Java:
    home: str
    version: str  # 17.0.15

    def command(self, classpath: str, main_class: str, *options: str) -> list[str]:
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        return [f"{self.home}/bin/java", *opened, *options, "-cp", classpath, main_class]


def find_java() -> Java:
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    if not program or not os.access(program, os.X_OK):
        where = f"JAVA_HOME is {home}, and it has no bin/java" if home else "no `java` on the PATH"
        raise JavaMissing(f"The test bed runs real Hadoop daemons and needs Java: {where}.")
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?((\d+)[\w.+-]*)', said.stderr + said.stdout)
    if found is None or int(found[2]) < OLDEST_JAVA:
        known = f"Java {found[2]}" if found else "Java of an unknown version"
        raise JavaMissing(f"{program} is {known}, which is too old.")
    return Java(home=str(Path(program).resolve().parent.parent), version=found[1])


def fetch(version: str, tell: Tell) -> Path:
    """The directory of this version; downloads it if it is not here."""
    name, program = f"hadoop-{version}", shutil.which("mvn") or ""
    if not program and not (cache.folder() / name).exists():
        raise MavenMissing(
            f"Hadoop {version} is not in {cache.folder()}, and there is no `mvn` on the PATH."
        )

    def make(scratch: Path) -> Path:
        tell(f"fetching Hadoop {version} from Maven Central, once, about 100 MB")
        return _fetch_into(scratch, version, program)

    return cache.made(name, make)


def _fetch_into(scratch: Path, version: str, program: str) -> Path:
    made = scratch / "made"
    (scratch / "pom.xml").write_text(pom(version))
    done = subprocess.run(
        [program, "-B", "-q", PLUGIN, "-DincludeScope=runtime", f"-DoutputDirectory={made}/jars"],
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        said = (errors[0] if errors else done.stdout + done.stderr).removeprefix("[ERROR]").strip()
        raise JarsUnavailable(f"Hadoop {version} could not be fetched: {said[:600]}")
    # The pages are in no other artifact; the tests themselves stay off the class path.
    (tests,) = (made / "jars").glob("hadoop-hdfs-*-tests.jar")
    with zipfile.ZipFile(tests) as archive:
        archive.extractall(made, [n for n in archive.namelist() if n.startswith("webapps/")])
    tests.unlink()
    return made


def pom(version: str) -> str:
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    alone = f"<exclusions>{everything}</exclusions>"
    shell, shell_version = DISTRIBUTED_SHELL
    wanted = [(name, version, "") for name in ARTIFACTS]
    wanted.append(("hadoop-hdfs", version, f"<classifier>tests</classifier>{alone}"))
    wanted.append((shell, shell_version, alone))
    dependencies = "\n".join(
        f"<dependency><groupId>org.apache.hadoop</groupId><artifactId>{name}</artifactId>"
        f"<version>{number}</version>{more}</dependency>"
        for name, number, more in wanted
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>dromon.testbeds</groupId>"
        "<artifactId>yarn</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )
