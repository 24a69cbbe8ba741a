"""What every member's command starts: `python HERE/start.py [--pyenv ARCHIVE ROOM]`.

It travels beside `run.py` (which unpickles and calls), the payload, and this package. It moves into
the Python of `pyenv_zip_path=` if there is one, makes `dromon.compat.tf_yarn` importable in
whatever Python that is, and hands over to `run.py`. Standard library only, nothing of Dromon.
"""

import hashlib
import os
import runpy
import shutil
import stat
import sys
import tarfile
import zipfile

PAYLOAD = "payload"
INSIDE = "DROMON_TF_YARN_PYENV"  # set once this process runs in the Python of the archive


def main(arguments: list[str]) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    if arguments and arguments[0] == "--pyenv" and INSIDE not in os.environ:
        _move_into(arguments[1], arguments[2])
    # As tf-yarn counted: the first try is 0.
    os.environ["TF_YARN_N_TRY"] = str(int(os.environ.get("DROMON_ATTEMPT", "1")) - 1)
    _find_ourselves(here)
    runner = os.path.join(here, "run.py")
    sys.path[0] = here  # `run.py` takes its cloudpickle from beside itself
    sys.argv[:] = [runner, os.path.join(here, PAYLOAD)]
    runpy.run_path(runner, run_name="__main__")


def _find_ourselves(here: str) -> None:
    """The copy shipped with the job, also where a Dromon without it is installed."""
    try:
        import dromon
    except ImportError:
        sys.path.append(here)
        return
    dromon.__path__.insert(0, os.path.join(here, "dromon"))


def _move_into(archive: str, room: str) -> None:
    """Run this again with the Python of a pex, or of a zipped or tarred environment."""
    archive, room = os.path.abspath(archive), os.path.abspath(room)
    arguments = [os.path.abspath(__file__), *sys.argv[1:]]
    os.environ[INSIDE] = archive
    if zipfile.is_zipfile(archive) and _is_pex(archive):
        os.environ.update(PEX_INTERPRETER="1", PEX_ROOT=os.path.join(room, "pex"))
        os.execv(sys.executable, [sys.executable, archive, *arguments])
    home = _unpacked(archive, room)
    python = os.path.join(home, "bin", "python")
    if not os.path.exists(python):
        sys.exit(
            f"pyenv_zip_path: {archive} is neither a pex nor an environment: it has no bin/python"
        )
    os.environ["PATH"] = os.path.join(home, "bin") + os.pathsep + os.environ.get("PATH", "")
    for name in ("VIRTUAL_ENV", "PYTHONHOME"):
        os.environ.pop(name, None)
    os.execv(python, [python, *arguments])


def _is_pex(archive: str) -> bool:
    with zipfile.ZipFile(archive) as opened:
        return "PEX-INFO" in opened.namelist()


def _unpacked(archive: str, room: str) -> str:
    """Once for all members that share `room`; whoever is late takes what the first one made."""
    status = os.stat(archive)
    key = f"{archive}\0{status.st_size}\0{status.st_mtime_ns}"
    home = os.path.join(room, "pyenv-" + hashlib.sha256(key.encode()).hexdigest()[:12])
    if os.path.isdir(home):
        return home
    fresh = f"{home}.{os.environ.get('DROMON_ROLE')}-{os.environ.get('DROMON_INDEX')}.{os.getpid()}"
    os.makedirs(fresh)
    if zipfile.is_zipfile(archive):
        unzip(archive, fresh)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(fresh, filter="fully_trusted")  # the user's own, for its own job
    try:
        os.rename(fresh, home)
    except OSError:  # another member was quicker
        shutil.rmtree(fresh, ignore_errors=True)
    return home


def unzip(archive: str, target: str) -> None:
    """With permissions and links, which `extractall` of a zip file forgets."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            mode = entry.external_attr >> 16
            if stat.S_ISLNK(mode):
                path = os.path.join(target, entry.filename)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(opened.read(entry).decode(), path)
                continue
            path = opened.extract(entry, target)
            if mode and not entry.is_dir():
                os.chmod(path, stat.S_IMODE(mode) | stat.S_IRUSR)


if __name__ == "__main__":
    main(sys.argv[1:])
