"""Lines of progress, which every long program prints for those who have only its log."""

import io
import re
import threading
from contextlib import redirect_stderr
from pathlib import Path

from namesrv_stream.reporting import progress_lines
from namesrv_stream.reporting.progress_lines import progress

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))[:2]


class Lines(io.StringIO):
    """Text that counts its lines."""

    def __init__(self):
        super().__init__()
        self.has_two = threading.Event()

    def write(self, text):
        written = super().write(text)
        if self.getvalue().count("\n") >= 2:
            self.has_two.set()
        return written


def test_a_long_program_prints_its_step_again_and_again_until_it_ends(monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY_S", 0.01)
    said = Lines()
    with redirect_stderr(said), progress("maintain_tables") as shown:
        shown.activity = "table topic"
        assert said.has_two.wait(30)
    assert re.fullmatch(r"maintain_tables: table topic, \d+ s after the start", said.getvalue().splitlines()[-1])
    assert "progress" not in {each.name for each in threading.enumerate()}
