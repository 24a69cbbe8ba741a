"""What containers are told in confidence: in their credentials, and nowhere else.

YARN keeps a container's environment and command in a file that is collected with its logs, so
neither may hold a secret. The credentials file is the container's own, mode 0600.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from dromon.hadoop import credentials as hadoop_credentials
from dromon.hadoop import token
from dromon.hadoop.credentials import Credentials
from dromon.hadoop.token import Token

KEY, SUPPLIED = "dromon.key", "dromon.supplied"
DEFAULT = "dromon.hdfs"  # the name of the default name node's token: YARN shuffles them


@dataclass(frozen=True)
class Secrets:
    key: bytes = field(repr=False)
    supplied: dict[str, str] = field(repr=False)  # values of secrets and null variables
    credentials: Credentials = field(repr=False)

    @property
    def hdfs_token(self) -> str:
        """For WebHDFS, where the default name node gave one."""
        name = self.credentials.secrets.get(DEFAULT, b"").decode()
        found = self.credentials.tokens.get(name)
        return hadoop_credentials.to_url(found) if found else ""

    def for_members(self) -> bytes:
        """A credentials file without what is the master's alone."""
        return hadoop_credentials.dump(self.credentials.without(token.AM_RM))


def default_token(tokens: Sequence[Token]) -> Credentials:
    """What tells that one, if there is one, from those of other name nodes."""
    return Credentials({}, {DEFAULT: tokens[0].service.encode()} if tokens else {})


def pack(key: bytes, supplied: dict[str, str], tokens: Credentials) -> bytes:
    """The credentials a job is submitted with."""
    ours = {KEY: key, SUPPLIED: json.dumps(supplied).encode()}
    return hadoop_credentials.dump(tokens.plus(Credentials({}, ours)))


def load_secrets() -> Secrets:
    """Those of the container this process runs in."""
    with open(os.environ["HADOOP_TOKEN_FILE_LOCATION"], "rb") as file:
        found = hadoop_credentials.load(file.read())
    supplied = json.loads(found.secrets.get(SUPPLIED, b"{}"))
    return Secrets(found.secrets[KEY], supplied, found)
