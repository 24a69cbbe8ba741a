"""Which site file is in force."""

from dromon.site import where


def test_the_variable_comes_first_then_the_contexts_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(where, "SYSTEM", str(tmp_path / "etc.yaml"))
    monkeypatch.setenv("DROMON_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("DROMON_SITE", raising=False)
    assert where.path() is None
    (tmp_path / "etc.yaml").touch()
    assert where.path() == str(tmp_path / "etc.yaml")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "site.yaml").touch()
    assert where.path() == str(tmp_path / "config" / "site.yaml")
    monkeypatch.setenv("DROMON_SITE", str(tmp_path / "not-there.yaml"))
    assert where.path() == str(tmp_path / "not-there.yaml")
    monkeypatch.setenv("DROMON_SITE", "")
    assert where.path() is None
