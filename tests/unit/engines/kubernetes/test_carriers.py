"""ConfigMaps and Secrets that carry a job to its pods, and manifests that need no client."""

import base64
import json
from dataclasses import replace

import pytest

from dromon.engines.kubernetes import carriers
from dromon.engines.kubernetes.manifest import standalone, to_yaml
from dromon.errors import Refused
from dromon.packaging import lightapp

ANNOTATIONS = 256 * 1024  # of one object; `kubectl apply` writes the object itself into one


def test_code_in_parts_is_whole_again_when_put_together(make_request):
    code = bytes(range(256)) * 8000
    maps = carriers.code_maps("train-aaaaaa", make_request(), {"code.tar.gz": code, "f": b""})
    names = [one["metadata"]["name"] for one in maps]
    assert names == [f"train-aaaaaa-code-{number}" for number in range(4)]
    parts = {k: base64.b64decode(v) for one in maps for k, v in one["binaryData"].items()}
    assert list(parts) == ["code.tar.gz.000", "code.tar.gz.001", "code.tar.gz.002", "f.000"]
    assert b"".join(parts[name] for name in sorted(parts) if name[0] == "c") == code
    assert all(len(part) <= 900_000 for part in parts.values())
    assert all(one["immutable"] for one in maps)


def test_code_too_large_for_the_api_server_is_refused(make_request):
    with pytest.raises(Refused, match=r"15\.0 MB packed") as refused:
        carriers.code_maps("train-aaaaaa", make_request(), {"code.tar.gz": bytes(15_000_000)})
    assert "store" in refused.value.hint


def test_the_request_that_pods_read_is_the_request(make_request):
    request = make_request(config={"text": "ö\n"})
    made = carriers.request_map("train-aaaaaa", request)
    read = json.loads(made["data"]["request.json"])
    assert read == {k: v for k, v in request.items() if k != "objects"}
    assert made["metadata"]["labels"]["dromon.io/job"] == "train-aaaaaa"


def test_a_request_too_large_for_a_config_map_is_refused(make_request):
    request = make_request(config={"table": "x" * 950_000})
    with pytest.raises(Refused, match="with all its configuration has") as refused:
        carriers.request_map("train-aaaaaa", request)
    assert refused.value.hint


def test_the_secret_has_the_key_and_the_values(make_request):
    made = carriers.secret("train-aaaaaa", make_request(), "k" * 64, {"TOKEN": "ö"})
    assert base64.b64decode(made["data"]["key"]) == b"k" * 64
    assert json.loads(base64.b64decode(made["data"]["supplied.json"])) == {"TOKEN": "ö"}
    assert (made["kind"], made["metadata"]["namespace"]) == ("Secret", "ml")


def test_objects_take_as_many_parts_as_there_are(make_request):
    objects = make_request()["objects"]
    before = json.dumps(objects)
    [job] = carriers.with_parts(objects, "train-aaaaaa", 3)
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    [volume] = [v for v in pod["volumes"] if v["name"] == "code"]
    assert len(volume["projected"]["sources"]) == 3
    assert json.dumps(objects) == before
    [bare] = carriers.with_parts(objects, "train-aaaaaa", 0)
    assert "/dromon/code" not in json.dumps(bare)


def test_a_manifest_alone_has_all_that_its_pods_mount(make_request):
    objects = standalone(make_request(replicas=2), b"light", b"code")
    [job] = [one for one in objects if one["kind"] == "Job"]
    maps = {one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"}
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    wanted = {v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v}
    for volume in pod["volumes"]:
        sources = volume.get("projected", {}).get("sources", ())
        wanted |= {source["configMap"]["name"] for source in sources}
    assert wanted == maps
    assert maps == {"train-aaaaaa", "train-aaaaaa-light", "train-aaaaaa-code-0"}  # nobody else's
    assert objects[-1] is job  # what it needs is there before it


def test_the_same_job_is_the_same_manifest_wherever_it_is_made(make_request):
    def made(**facts):
        keys = {"inherited": {"LANG": facts["cwd"]}, "user": "al", **facts}
        return to_yaml(standalone(make_request(launch_keys={"facts": keys}), b"light", b"code"))

    assert made(cwd="/home/al") == made(cwd="/somewhere/else")


def test_the_key_of_a_manifest_alone_is_made_by_volcano(make_request, target):
    *_, job = standalone(make_request(), b"light", None)
    assert job["spec"]["plugins"]["ssh"] == ["--ssh-key-file-path=/dromon/ssh"]
    *_, plain = standalone(make_request(on=replace(target, volcano=False)), b"light", None)
    assert "plugins" not in plain["spec"]


def test_with_a_store_the_code_of_a_manifest_still_comes_with_it(make_request, target):
    store = {"volume": {"nfs": {"server": "s", "path": "/d"}}, "sub_path": "", "local": ""}
    *_, job = standalone(make_request(on=replace(target, store=store)), b"light", b"code")
    mounts = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"mountPath": "/dromon/code", "name": "code", "readOnly": True} in mounts


def test_a_manifest_alone_takes_values_of_secrets_from_the_cluster_only(make_request):
    asked = {"secrets": ["TOKEN"], "launch_keys": {"supplied": {"TOKEN": "canary"}}}
    with pytest.raises(Refused, match="the job needs TOKEN") as refused:
        standalone(make_request(**asked), b"light", None)
    assert "kubernetes: {secret: ITS-NAME}" in refused.value.hint
    made = standalone(make_request(**asked, kubernetes={"secret": "wandb"}), b"light", None)
    assert "canary" not in to_yaml(made)
    assert "secretName: wandb" in to_yaml(made)


def test_what_only_the_client_brings_is_refused_in_a_manifest_alone(make_request, target):
    store = {"volume": {"nfs": {"server": "s", "path": "/d"}}, "sub_path": "", "local": ""}
    uv = {"kind": "uv", "request": {"packages": ["numpy"]}}
    request = make_request(on=replace(target, store=store), launch_keys={"environment": uv})
    with pytest.raises(Refused, match="not in the store yet"):
        standalone(request, b"light", None)
    with pytest.raises(Refused, match="a shipped function"):
        standalone({**make_request(), "payload": {"digest": "d", "size": 1}}, b"light", None)


def test_every_object_of_a_manifest_fits_into_what_kubectl_apply_writes(make_request, tmp_path):
    light = lightapp.build(str(tmp_path), engine="kubernetes")
    with open(light.path, "rb") as file:
        objects = standalone(make_request(), file.read(), bytes(500_000))
    assert len(objects) == 6
    assert max(len(json.dumps(one)) for one in objects) < ANNOTATIONS
