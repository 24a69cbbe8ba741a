"""Delegation tokens from a NameNode that issues them, and what they open."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from testbeds.yarn.bed import Bed

from dromon.hadoop import addresses, credentials, delegation, site
from dromon.hadoop.hdfsfaults import NoPermission
from dromon.hadoop.sasl import Simple
from dromon.hadoop.token import HDFS_DELEGATION
from dromon.hadoop.transport import RpcFailed
from dromon.hadoop.webhdfs import WebHdfs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

READ = """
import sys, hdfs_native
# It looks at tokens only where it takes the cluster for a secure one.
client = hdfs_native.Client(sys.argv[1], {"hadoop.security.authentication": "kerberos"})
sys.stdout.write(client.read(sys.argv[2]).read().decode())
"""


def service(bed: Bed) -> addresses.NameService:
    files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
    return addresses.name_service(site.load(files, dict(os.environ), {}))


def web(bed: Bed, user: str, token: str = "") -> WebHdfs:
    return WebHdfs([node.web for node in service(bed).nodes], user, token)


def test_where_security_is_off_there_is_no_token_and_no_complaint(bed: Bed):
    assert delegation.fetch([service(bed)], "yarn", Simple("alice")) == []


def test_a_token_opens_what_its_owner_may_read(bare: Bed, tmp_path: Path):
    root = web(bare, "root")
    root.make_directory("/tmp/alice", "777")
    root.set_permission("/tmp/alice", "777")
    web(bare, "alice").write("/tmp/alice/secret", b"for alice", permission="600")
    with pytest.raises(NoPermission):
        web(bare, "bob").read("/tmp/alice/secret")
    name_service = service(bare)
    twice = [name_service, name_service]
    (token,) = delegation.fetch(twice, "yarn", Simple("alice"))
    assert token.kind == HDFS_DELEGATION
    assert token.service == str(name_service.nodes[0].rpc)
    assert b"alice" in token.identifier

    # WebHDFS takes the token beside the name. With security off the name alone would do, and the
    # token alone would not: a NameNode then makes whoever gives no name a stranger.
    secret = "/tmp/alice/secret"
    assert web(bare, "alice", credentials.to_url(token)).read(secret) == b"for alice"
    with pytest.raises(NoPermission, match=r"dr\.who"):
        web(bare, "", credentials.to_url(token)).read(secret)

    # hdfs-native, by the credentials file alone: the process is nobody in particular
    file = tmp_path / "container_tokens"
    file.write_bytes(credentials.dump(delegation.credentials([token])))
    url = f"hdfs://{name_service.nodes[0].rpc}"
    env = {**os.environ, "HADOOP_USER_NAME": "bob", "HADOOP_TOKEN_FILE_LOCATION": str(file)}
    done = subprocess.run(
        [sys.executable, "-c", READ, url, secret],
        env=env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "for alice", done.stderr

    # our own RPC, with the token for an identity; and its end
    with pytest.raises(RpcFailed, match="bob is not authorized to cancel the token"):
        delegation.cancel(token, name_service, Simple("bob"))
    delegation.cancel(token, name_service, token)
    with pytest.raises(RpcFailed):
        delegation.cancel(token, name_service, Simple("alice"))
