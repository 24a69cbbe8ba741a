"""Makes docs/demo.svg: a terminal session, really run, drawn as it came out.

    .venv/bin/python scripts/recording.py

The job is the JAX example: a real training of two workers. Colours are those the commands print on
a terminal; only the waiting is left out.
"""

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 104
COLOURS = {
    "31": "#f47067", "32": "#8ddb8c", "33": "#f69d50", "34": "#6cb6ff", "35": "#dcbdfb",
    "36": "#76e3ea", "90": "#768390", "2": "#768390", "91": "#ff938a", "92": "#b4f1b4",
    "93": "#ffc680", "94": "#96d0ff", "95": "#eedcff", "96": "#b3f0ff",
}  # fmt: skip
EXAMPLE = ROOT / "examples" / "jax-data-parallel"
SESSION = [
    "cat job.yaml",
    "dromon run job.yaml config.epochs=4",
    "dromon ps -a",
    "dromon run -d --name big --cpus {cores} -- sleep 60",
    "dromon run -d --name next --cpus 1 -- echo my turn",
    "dromon why next",
]


def run(command: str, folder: str, env: dict[str, str]) -> str:
    """What a terminal would have been sent."""
    leader, follower = pty.openpty()
    os.set_blocking(leader, True)
    process = subprocess.Popen(
        ["bash", "-c", f"stty cols {COLUMNS}; {command}"],
        cwd=folder, env=env, stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    output = b""
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:  # the last writer has left
            break
        output += data
    process.wait()
    os.close(leader)
    return output.decode(errors="replace").replace("\r\n", "\n")


def settled(text: str) -> list[str]:
    """Lines as they look in the end: a line that was drawn over shows its last state."""
    lines = []
    for line in text.rstrip("\n").split("\n"):
        line = line.split("\r")[-1]
        lines.append(re.sub(r"\x1b\[\??[0-9;]*[A-HJKlh]", "", line))
    return lines


def spans(line: str) -> str:
    """One line with its colours as tspans."""
    out, colour, bold = [], "", False
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b["):
            for code in piece[2:-1].split(";"):
                if code in ("", "0", "39", "22"):
                    colour, bold = "", False
                elif code == "1":
                    bold = True
                else:
                    colour = COLOURS.get(code, colour)
        elif piece:
            style = f' fill="{colour}"' if colour else ""
            style += ' font-weight="bold"' if bold else ""
            out.append(f"<tspan{style}>{escape(piece)}</tspan>")
    return "".join(out)


def draw(lines: list[str]) -> str:
    height, size = 18, 13
    rows = "\n".join(
        f'<text x="16" y="{46 + i * height}" xml:space="preserve">{spans(line)}</text>'
        for i, line in enumerate(lines)
    )
    width, total = int(COLUMNS * 7.85) + 32, 46 + len(lines) * height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" '
        f'viewBox="0 0 {width} {total}" font-family="ui-monospace, Menlo, Consolas, monospace" '
        f'font-size="{size}" fill="#adbac7">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#22272e"/>\n'
        '<circle cx="18" cy="16" r="5" fill="#f47067"/><circle cx="36" cy="16" r="5" '
        'fill="#f69d50"/><circle cx="54" cy="16" r="5" fill="#8ddb8c"/>\n'
        f"{rows}\n</svg>\n"
    )


def main() -> int:
    home = tempfile.mkdtemp(prefix="dromon-", dir="/tmp")
    folder = os.path.join(home, EXAMPLE.name)
    shutil.copytree(EXAMPLE, folder)
    binaries = str(Path(sys.executable).parent)
    env = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "DROMON_HOME": os.path.join(home, "s"),
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LANG": "C.UTF-8",
    }
    lines = []
    try:
        for command in SESSION:
            command = command.format(cores=len(os.sched_getaffinity(0)))
            lines.append(f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m")
            lines += [*settled(run(command, folder, env)), ""]
    finally:
        run("dromon stop --grace 0 big next", folder, env)
        run("dromon daemon stop", folder, env)
        shutil.rmtree(home, ignore_errors=True)
    (ROOT / "docs" / "demo.svg").write_text(draw(lines[:-1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
