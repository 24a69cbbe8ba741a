"""What HDFS refuses, in words. Whoever asked, over RPC or over HTTP, gets the same error.

    HdfsError
    ├── SafeMode          the NameNode takes no changes for now
    ├── NoPermission      who may not do what, and to whom it belongs
    ├── NotThere          no such file or directory
    ├── AlreadyThere      something of that name exists
    ├── NoSpace           a quota is used up, or no DataNode has room
    ├── NoDataNode        no DataNode takes or has the data
    └── HdfsUnreachable   no NameNode answers, or it does not take us

``explained`` turns a Java exception into one of them. No I/O here.
"""

from __future__ import annotations

import re

from dromon.errors import EngineError


class HdfsError(EngineError):
    """HDFS did not do what was asked."""

    def __init__(self, message: str = "", *, exception: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exception = exception  # Java's short name for it, where Java said so


class SafeMode(HdfsError):
    """HDFS is in safe mode and takes no changes."""

    hint = "It leaves safe mode by itself once enough DataNodes have reported; then try again."


class NoPermission(HdfsError):
    """HDFS does not permit it."""

    hint = "Ask whoever owns it, or act as another user (HADOOP_USER_NAME, where the site allows)."


class NotThere(HdfsError):
    """No such file or directory on HDFS."""


class AlreadyThere(HdfsError):
    """It is on HDFS already."""


class NoSpace(HdfsError):
    """HDFS has no room for it."""

    hint = "`dromon gc` removes what no job needs any more; else ask for a larger quota."


class NoDataNode(HdfsError):
    """No DataNode takes the data."""

    hint = "Is a DataNode up, and does it have room? The NameNode's web page lists them."


class HdfsUnreachable(HdfsError):
    """No NameNode answers."""

    hint = "Check the addresses in hdfs-site.xml, and that this machine may reach them."


_DENIED = re.compile(
    r"Permission denied: user=(?P<user>[^,]+), access=(?P<access>\w+), "
    r'inode="(?P<path>[^"]*)":(?P<owner>[^:]*:[^:]*):(?P<mode>\S+)'
)
# To what the NameNode says when there is no DataNode, there is no exception of its own.
_NO_DATA_NODE = ("could only be", "Failed to find datanode", "No active nodes contain")
_QUOTA = frozenset(
    {"NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException"}
)


def short(name: str) -> str:
    """``SafeModeException`` of ``org.apache…namenode.SafeModeException``."""
    return re.split(r"[.$]", name)[-1]


def explained(exception: str, text: str, doing: str) -> HdfsError:
    """The error for a Java exception (its full or short name). ``doing``: "write /a/b"."""
    name = short(exception)
    said = text.split("\n\tat ")[0].strip()
    line = said.splitlines()[0] if said else name
    if name == "SafeModeException" or "safe mode" in said.lower():
        why = " ".join(said.split())
        return SafeMode(f"Cannot {doing}: HDFS is in safe mode. {why}", exception=name)
    if name == "AccessControlException":
        return NoPermission(f"Cannot {doing}: {_denied(line)}", exception=name)
    if name == "FileNotFoundException":
        return NotThere(f"Cannot {doing}: {line}", exception=name)
    if name in ("FileAlreadyExistsException", "AlreadyBeingCreatedException"):
        return AlreadyThere(f"Cannot {doing}: {line}", exception=name)
    if name in _QUOTA:
        return NoSpace(f"Cannot {doing}: {line}", exception=name)
    if name == "BlockMissingException" or any(words in said for words in _NO_DATA_NODE):
        return NoDataNode(f"Cannot {doing}: {line}", exception=name)
    if name in ("SecurityException", "AuthenticationException", "InvalidToken"):
        return HdfsUnreachable(
            f"Cannot {doing}: HDFS does not take us: {line}",
            exception=name,
            hint="The delegation token may have expired, or the cluster wants Kerberos.",
        )
    return HdfsError(f"Cannot {doing}: {line}", exception=name)


def _denied(line: str) -> str:
    match = _DENIED.search(line)
    if match is None:
        return line
    verb = {"READ_EXECUTE": "LIST", "EXECUTE": "ENTER"}.get(match["access"], match["access"])
    return (
        f"{match['user']} may not {verb.lower()} {match['path']}, which belongs to"
        f" {match['owner']} and is {match['mode']}."
    )
