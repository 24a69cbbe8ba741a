"""Lines in bulk look as lines one by one do."""

import pytest

from dromon.cli.lines import LinePrinter
from dromon.engines.base import LogLine
from dromon.observe.logs import Text


@pytest.mark.parametrize("members", [["worker-0"], ["worker-0", "ps-0"]])
@pytest.mark.parametrize("timestamps", [True, False])
def test_texts_are_printed_as_their_lines_are(capfdbinary, members, timestamps):
    texts = [
        Text(1000.25, "worker-0", 0, "out", "one\ntwo\n\nthrée\n".encode(), 0),
        Text(1001.5, members[-1], 1, "err", b"only\n", 0),
        Text(1002.0, "worker-0", 0, "out", b"\n", 0),
    ]

    def printed(*, bulk: bool) -> tuple[bytes, bytes]:
        printer = LinePrinter(lambda: members, split=True, timestamps=timestamps, live=False)
        for text in texts:
            if bulk:
                printer.print_text(text)
                continue
            for line in text.data.decode().split("\n")[:-1]:
                printer.print(LogLine(text.time, text.member, text.rank, text.stream, line))
        printer.flush()
        captured = capfdbinary.readouterr()
        return captured.out, captured.err

    one_by_one = printed(bulk=False)
    assert one_by_one[0].count(b"\n") == 5
    assert printed(bulk=True) == one_by_one
