"""A working directory, a store and an index, for tests of snapshots."""

import pytest

from dromon.packaging import index as indexes
from dromon.packaging.snapshot import manifest, snapshot
from dromon.storage.blobs import BlobStore


class Bench:
    """A working directory, a store and an index."""

    def __init__(self, root):
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        self.store = BlobStore(str(root / "store"))
        self.index = str(root / "index")

    def write(self, path, text="x", *, mode=None):
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if mode is not None:
            file.chmod(mode)
        return file

    def take(self, **options):
        return snapshot(str(self.work), self.store, index_dir=self.index, **options)

    def paths(self, **options):
        return [e.path for e in manifest(self.take(**options).digest, self.store)]

    def settle(self):
        """As if everything had been written long ago: the next snapshot trusts the index."""
        for data in indexes._indexes.values():
            for directory in data.directories.values():
                directory.racy = False
                for name, known in directory.ignores.items():
                    directory.ignores[name] = (*known[:4], False, known[5])
                for file in directory.files.values():
                    file.racy = False


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)
