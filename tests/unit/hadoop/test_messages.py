"""The tables against bytes that Hadoop's own classes wrote: vectors/messages.txt.

In those every field is set: text to the field's own name, bytes to a zero and the name, numbers to
what the field's number says, lists to the same thing twice; messages inside messages hold scalars
only, below that only what they must.
"""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from dromon.hadoop import messages
from dromon.hadoop.protobuf import Record, Scalar, Table, decode, encode
from dromon.hadoop.protocol import Protocol

LINES = (Path(__file__).parent / "vectors" / "messages.txt").read_text().splitlines()
VECTORS = [tuple(line.split(" ")) for line in LINES if not line.startswith("#")]

MODULES = [
    importlib.import_module(f"{messages.__name__}.{found.name}")
    for found in pkgutil.iter_modules(messages.__path__)
]
TABLES = {
    value.name: value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, Table)
}


def snake(name: str) -> str:
    name = name.replace("ACLs", "acls").replace("_Usage", "_usage")
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def check(record: Record, top: bool) -> None:
    for name, value in record.items():
        field = record.table.fields[name]
        values = value if field.rule == "many" else [value]
        assert len(values) == (2 if field.rule == "many" else 1)
        for item in values:
            if isinstance(field.kind, Scalar):
                check_scalar(field.number, name, field.kind.name, item)
            else:
                check(item, top=False)
    if top:
        assert record.keys() <= record.table.fields.keys()


def check_scalar(number: int, name: str, kind: str, value: object) -> None:
    wanted = {
        "int32": -number,
        "int64": -(1 << 40) - number,
        "uint32": (1 << 32) - 1 - number,
        "uint64": (1 << 64) - 1 - number,
        "sint32": -number,
        "bool": True,
        "float": number + 0.5,
    }
    if kind == "string":
        assert snake(str(value)) == name
    elif kind == "bytes":
        assert isinstance(value, bytes)
        assert value[:1] == b"\0"
        assert snake(value[1:].decode()) == name
    elif kind == "enum":
        assert isinstance(value, int)
    else:
        assert value == wanted[kind]


@pytest.mark.parametrize(("release", "name", "wire"), VECTORS, ids=lambda value: value[:40])
def test_hadoops_own_bytes_are_understood_and_written_again(release, name, wire):
    data = bytes.fromhex(wire)
    record = decode(TABLES[name], data)
    check(record, top=True)
    if release == "3.5.0":
        assert record.keys() == TABLES[name].fields.keys()
    assert encode(TABLES[name], record) == data


def test_every_table_has_its_vector():
    assert TABLES.keys() == {name for release, name, _ in VECTORS if release == "3.5.0"}


def test_protocols_have_the_names_and_methods_the_servers_know():
    protocols = {
        value.name: value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, Protocol)
    }
    assert {name: len(found.methods) for name, found in protocols.items()} == {
        "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB": 3,
        "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB": 4,
        "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB": 25,
        "org.apache.hadoop.hdfs.protocol.ClientProtocol": 3,
    }
    assert all(found.version == 1 for found in protocols.values())


def test_absent_fields_answer_what_hadoop_says():
    defaults = {
        ("ContainerStatusProto", "exit_status"): -1000,
        ("ContainerStatusProto", "diagnostics"): "N/A",
        ("ResourceRequestProto", "relax_locality"): True,
        ("ResourceRequestProto", "allocation_request_id"): -1,
        ("ContainerProto", "execution_type"): 1,
        ("ContainerProto", "allocation_request_id"): -1,
        ("ApplicationSubmissionContextProto", "queue"): "default",
        ("ApplicationSubmissionContextProto", "application_type"): "YARN",
        ("ApplicationACLMapProto", "acl"): " ",
        ("FinishApplicationMasterResponseProto", "is_unregistered"): False,
        ("AMRMTokenIdentifierProto", "key_id"): -1,
        ("RpcResponseHeaderProto", "retry_count"): -1,
    }
    for (table, name), wanted in defaults.items():
        assert decode(TABLES[table], b"" if table[:3] != "Rpc" else b"\x08\0\x10\0")[name] == wanted
