"""Fuzz tests of what reads subtitles. Long run: see `tests.support.fuzzing`."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.fuzzing import FUZZ, json_bytes, mutated, repeated
from videopro.errors import SubtitleError
from videopro.video import Subtitles, load_subtitles

TIMES = ("00:00:01,000 --> 00:00:02,500", "00:03.000 --> 00:04.000 align:start", "0:00:05,0 --> 99:00:00,000")
PIECES = [
    *("1\n", "\n", "\n\n", "\r\n", "WEBVTT\n\n", "NOTE x\n\n", "STYLE\n", "[Script Info]\n", "[Events]\n"),
    *("-->", " --> ", "1e999 --> 1\n", "-00:00:01,000 --> 00:00:02,000\n", "Dialogue: 0,,,"),
    *("99999999999:00:00,0 --> 1:1:1,1\n", "Hello", "<i>", "</i>", "<c.a>", "<00:01.000>", "{\\an8}"),
    *("{\\p1}m 0 0", "{", "}", "\\N", "&amp;", "&#" + "9" * 5000 + ";", "&#xD800;", "<", ","),
    *("Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,hi\n", "Format: Start, End, Text\n"),
]
UNITS = (*PIECES, *(f"{stamp}\n" for stamp in TIMES))
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "gb18030", "utf-7")
LINES = [
    {"start": 1.0, "end": 2.5, "line": "Hello"},
    {"start": "00:00:03.000", "end": "00:00:04", "line": "there"},
    {"timestamp": [5, None], "text": "you"},
]


def read(content: bytes, duration: float | None, offset: float) -> Subtitles | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.srt"
        path.write_bytes(content)
        start = time.process_time()
        message = str(path)
        try:
            subtitles = load_subtitles(path, duration=duration, start_offset=offset)
        except SubtitleError as error:
            message, subtitles = str(error), None
        assert time.process_time() - start < 10
        assert str(path) in message, "the file is named"
        assert len(message) < 3000
    if subtitles is not None:
        starts = [line.start for line in subtitles.lines]
        assert starts == sorted(starts)
        for line in subtitles.lines:
            assert 0 <= line.start <= line.end < math.inf
            assert duration is None or line.end <= duration
            assert line.text.strip()
            line.text.encode()
        subtitles.visible_at([0.5, 1.5])
    return subtitles


@FUZZ
@given(
    repeated(UNITS, 30),
    st.sampled_from(("", "WEBVTT\n\n", "[Script Info]\n[Events]\n", f"1\n{TIMES[0]}\n")),
    st.sampled_from(ENCODINGS),
    st.sampled_from((None, 10.0)),
    st.sampled_from((0.0, 1.5, -1e9)),
)
@example("9" * 5000, f"1\n{TIMES[0]}\n", "utf-8", None, 0.0)
def test_a_file_is_subtitles_or_an_error(
    text: str, start: str, encoding: str, duration: float | None, offset: float
) -> None:
    read((start + text).encode(encoding, "replace"), duration, offset)


@FUZZ
@given(json_bytes(mutated(LINES)), st.sampled_from((None, 10.0)), st.sampled_from((0.0, 2.5)))
@example(b'[{"start": 1e999, "end": 2, "line": "x"}]', None, 0.0)
@example(b"[" * 100_000, None, 0.0)
def test_a_json_file_is_subtitles_or_an_error(content: bytes, duration: float | None, offset: float) -> None:
    read(content, duration, offset)
