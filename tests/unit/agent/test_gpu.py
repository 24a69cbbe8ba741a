from dromon.agent import gpu


def test_machine_without_gpus_has_none_and_nothing_raises():
    found = gpu.devices()
    assert all(device.memory > 0 and device.uuid for device in found)
    assert gpu.Gpus().use([1, 2, 3]) == {}


def test_amd_devices_are_read_from_the_kernels_topology(tmp_path):
    nodes = tmp_path / "topology" / "nodes"
    for number, (name, simds, unique) in enumerate([("cpu", 0, 0), ("gfx90a", 440, 0xAB)]):
        bank = nodes / str(number) / "mem_banks" / "0"
        bank.mkdir(parents=True)
        (bank / "properties").write_text(
            f"heap_type {1 if simds else 0}\nsize_in_bytes 68702699520\n"
        )
        (bank.parent.parent / "name").write_text(name + "\n")
        (bank.parent.parent / "properties").write_text(f"simd_count {simds}\nunique_id {unique}\n")
    process = tmp_path / "proc" / "77"
    process.mkdir(parents=True)
    (process / "vram_1234").write_text("4096\n")
    amd = gpu.Amd(str(tmp_path))
    assert amd.devices() == [gpu.Device(0, "GPU-00000000000000ab", "gfx90a", 68702699520, "amd")]
    assert amd.use([77, 78]) == {"memory": 4096.0}
    assert amd.use([78]) == {}
    assert gpu.Amd(str(tmp_path / "nothing")).devices() == []
