"""Subtitles from files, from LongVideoBench's JSON and from tracks in video files that FFmpeg wrote.

Expected lines are written by hand beside each input.
"""

import io
import json
import os
import time
from pathlib import Path

import av
import numpy as np
import pytest
from av.stream import Disposition

from tests.support.making_videos import ASS_HEAD, with_subtitles
from videopro.errors import SubtitleError, VideoError
from videopro.video import (
    SubtitleLine,
    Subtitles,
    embedded_subtitles,
    has_embedded_subtitles,
    load_subtitles,
)

PLAIN = "1\n00:00:01,000 --> 00:00:02,500\nHello\n\n2\n00:00:03,000 --> 00:00:04,250\nBye\n"
HELLO = (SubtitleLine(1.0, 2.5, "Hello"), SubtitleLine(3.0, 4.25, "Bye"))


def write(folder: Path, text: str | bytes, name: str = "said.srt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def said(lines: tuple[SubtitleLine, ...]) -> list[tuple[float, float, str]]:
    return [(round(line.start, 3), round(line.end, 3), line.text) for line in lines]


# ---- .srt -------------------------------------------------------------------------------------------------


def test_srt(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    assert load_subtitles(path) == Subtitles(HELLO, str(path))
    assert load_subtitles(str(path)).lines == HELLO


def test_font_tags_and_override_codes_go_and_every_row_stays(tmp_path: Path) -> None:
    text = (
        '1\n00:00:01,000 --> 00:00:02,000\n<font color="white" size=".72c">Hello, <i>you</i></font>\n'
        '<font color="white" size=".72c">over there</font>\n\n'
        "2\n00:00:02,000 --> 00:00:03,000\n{\\an8}{\\i1}Up{\\i0} {here} &amp; 3 < 4 > 2\n\n"
        "3\n00:00:03,000 --> 00:00:04,000\nCount:\n42\n\n"
        "4\n00:00:04,000 --> 00:00:05,000\n\n"
        "5\n00:00:05,000 --> 00:00:06,000\n1984\n\n"
        "6\n00:00:06,000 --> 00:00:07,000\n<c.yellow>Tea</c> <B>or</B><br/>coffee\n"
    )
    assert said(load_subtitles(write(tmp_path, text)).lines) == [
        (1, 2, "Hello, you\nover there"),
        (2, 3, "Up {here} & 3 < 4 > 2"),
        (3, 4, "Count:\n42"),
        (5, 6, "1984"),
        (6, 7, "Tea or\ncoffee"),
    ]


def test_untidy_srt(tmp_path: Path) -> None:
    """No numbers, no empty line before a cue, dots for commas, positions, over 100 hours, out of order."""
    text = (
        "00:00:05.000 --> 00:00:06.000 X1:20 Y1:3\nlater\n\n"
        "00:00:01,000 --> 00:00:04,000\nfirst\n3\n00:00:02,000 --> 00:00:03,000\nwithin\n\n"
        "100:00:01,000 --> 100:00:02,000\nlast\n"
    )
    assert said(load_subtitles(write(tmp_path, text)).lines) == [
        (1, 4, "first"),
        (2, 3, "within"),
        (5, 6, "later"),
        (360001, 360002, "last"),
    ]


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_line_ends(tmp_path: Path, ends: str) -> None:
    assert load_subtitles(write(tmp_path, PLAIN.replace("\n", ends))).lines == HELLO


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_encodings(tmp_path: Path, encoding: str) -> None:
    text = PLAIN.replace("Bye", "Où ça? 你好 😀")
    assert load_subtitles(write(tmp_path, text.encode(encoding))).lines[1].text == "Où ça? 你好 😀"


@pytest.mark.parametrize(
    ("encoding", "speech"),
    [
        ("latin-1", "Où est passé l'été ? Hélène préfère les gâteaux à la crème brûlée, répondit-il."),
        ("cp1251", "Привет, как дела? Мы идём в магазин за хлебом и молоком."),
        ("gb18030", "你好，今天天气很好。我们去商店买面包和牛奶，然后回家看电视。"),
    ],
)
def test_old_encodings_are_detected(tmp_path: Path, encoding: str, speech: str) -> None:
    assert (
        load_subtitles(write(tmp_path, PLAIN.replace("Bye", speech).encode(encoding))).lines[1].text == speech
    )


# ---- .vtt and .ass ----------------------------------------------------------------------------------------


def test_vtt(tmp_path: Path) -> None:
    text = (
        "WEBVTT\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nNOTE not\nshown\n\nintro\n"
        "00:01.000 --> 00:02.500 align:start position:0%\n<v Bob>Fish &amp; chips</v>\n- 42\n\n"
        "01:00:00.000 --> 01:00:01.000\n<c.red>An <00:00:00.500>hour</c>&nbsp;later\n"
    )
    assert said(load_subtitles(write(tmp_path, text, "said.vtt")).lines) == [
        (1, 2.5, "Fish & chips\n- 42"),
        (3600, 3601, "An hour later"),
    ]


def test_a_header_alone_has_no_lines(tmp_path: Path) -> None:
    assert load_subtitles(write(tmp_path, "WEBVTT\n", "said.vtt")).lines == ()


def test_rolling_captions_say_every_row_once(tmp_path: Path) -> None:
    """The form of YouTube's automatic captions: each cue opens with the row before, between short holds."""
    text = (
        "WEBVTT\nKind: captions\nLanguage: en\n\n"
        "00:00:00.160 --> 00:00:03.429 align:start position:0%\n \n"
        "we<00:00:00.960><c> see</c><00:00:01.520><c> a</c>\n\n"
        "00:00:03.429 --> 00:00:03.439 align:start position:0%\nwe see a\n \n\n"
        "00:00:03.439 --> 00:00:05.749 align:start position:0%\nwe see a\ndog<00:00:03.760><c> and</c>\n\n"
        "00:00:05.749 --> 00:00:05.759 align:start position:0%\ndog and\n \n\n"
        "00:00:05.759 --> 00:00:08.000 align:start position:0%\ndog and\na<00:00:06.000><c> cat</c>\n\n"
        "00:00:20.000 --> 00:00:21.000 align:start position:0%\n \na<00:00:20.500><c> cat</c>\n"
    )
    assert said(load_subtitles(write(tmp_path, text, "said.vtt")).lines) == [
        (0.16, 3.439, "we see a"),
        (3.439, 5.759, "dog and"),
        (5.759, 8, "a cat"),
        (20, 21, "a cat"),  # said again, long after
    ]


def test_spoken_repeats_stay(tmp_path: Path) -> None:
    cues = ["No!", "No!", "Why not?", "Because.", "Why?"]
    text = "".join(f"{i}\n00:00:0{i},000 --> 00:00:0{i + 1},000\n{cue}\n\n" for i, cue in enumerate(cues))
    assert [line.text for line in load_subtitles(write(tmp_path, text)).lines] == cues


def test_a_repeated_music_caption_is_one_line(tmp_path: Path) -> None:
    """The same row over and over is one line that lasts."""
    text = "".join(f"{i}\n00:00:0{i},000 --> 00:00:0{i + 1},000\n[Music]\n\n" for i in range(4))
    assert said(load_subtitles(write(tmp_path, text)).lines) == [(0, 4, "[Music]")]


def test_ass(tmp_path: Path) -> None:
    text = ASS_HEAD + (
        "Dialogue: 0,0:00:01.00,0:00:02.50,Default,,0,0,0,,{\\i1}Hi, there{\\i0}\\Nyou{a comment}\\htwo\n"
        "Comment: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,hidden\n"
        "Dialogue: 0,0:00:05.00,0:00:06.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0{\\p0}text\n"
    )
    assert said(load_subtitles(write(tmp_path, text, "said.ass")).lines) == [
        (1, 2.5, "Hi, there\nyou two"),
        (5, 6, "text"),
    ]


# ---- LongVideoBench ---------------------------------------------------------------------------------------


def test_longvideobench_with_clock_times(tmp_path: Path) -> None:
    records = [
        {"start": "00:01:40.500", "end": "00:01:42.000", "line": '<font color="white">Hello</font>'},
        {"start": "0:1:43", "end": "0:1:44.25", "line": "you"},
    ]
    path = write(tmp_path, json.dumps(records), "x_en.json")
    assert said(load_subtitles(path, duration=60, start_offset=100).lines) == [
        (0.5, 2, "Hello"),
        (3, 4.25, "you"),
    ]


def test_longvideobench_with_stamps_and_open_end(tmp_path: Path) -> None:
    records = [
        {"timestamp": [99.0, 100.5], "text": "begun before"},
        {"timestamp": [95, 100], "text": "over before"},
        {"timestamp": [130.25, None], "text": "to the end"},
        {"timestamp": [158, 170.0], "text": "cut"},
        {"timestamp": [160, 161], "text": "too late"},
        {"timestamp": [110, 111], "text": ""},
    ]
    path = write(tmp_path, json.dumps(records), "x_en.json")
    assert said(load_subtitles(path, duration=60, start_offset=100).lines) == [
        (0, 0.5, "begun before"),
        (30.25, 60, "to the end"),
        (58, 60, "cut"),
    ]
    with pytest.raises(SubtitleError, match=r"x_en.json: line 2 has no end; give the duration"):
        load_subtitles(path, start_offset=100)


def test_words_of_video_mme_v2_are_joined_to_sentences(tmp_path: Path) -> None:
    words = [
        ("Hello", 1.0, 1.2),
        ("there.", 1.3, 1.5),
        ("We", 1.61, 2.0),
        ("go", 2.5, 2.6),
        ("on", 3.11, 3.2),
    ]
    rows = [json.dumps({"text": text, "start_time": start, "end_time": end}) for text, start, end in words]
    path = write(tmp_path, "\n".join(rows) + "\n\n", "001.jsonl")
    # A pause of 0.11 s after a full stop, none of 0.5 s, and one of 0.51 s.
    assert said(load_subtitles(path).lines) == [
        (1, 1.5, "Hello there."),
        (1.61, 2.6, "We go"),
        (3.11, 3.2, "on"),
    ]
    assert load_subtitles(write(tmp_path, "\n", "002.jsonl")).lines == (), "nothing is said"
    broken = write(tmp_path, rows[0] + '\n{"text": "x"}', "003.jsonl")
    with pytest.raises(
        SubtitleError, match=r"003.jsonl: line 2 is no word with text, start_time and end_time"
    ):
        load_subtitles(broken)


def test_longvideobench_without_speech(tmp_path: Path) -> None:
    assert load_subtitles(write(tmp_path, "[]", "x.json")).lines == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"start": "0:0:1"', "broken JSON"),
        ('{"lines": []}', "not a list of lines"),
        ('[{"start": "0:0:1", "line": "x"}]', "line 0 .*KeyError: 'end'"),
        ('[{"start": "x:0:1", "end": "0:0:2", "line": "x"}]', "'x:0:1' is not a time"),
        ('[{"timestamp": [1], "text": "x"}]', "line 0"),
        ('[{"timestamp": [1, 2], "text": 3}]', "line 0"),
        ('["x"]', "line 0"),
    ],
)
def test_broken_longvideobench_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text, "x_en.json")
    with pytest.raises(SubtitleError, match=says) as error:
        load_subtitles(path, duration=60)
    assert str(path) in str(error.value)


# ---- bad files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty; download it again"),
        (b" \r\n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"Hello\nBye\n", "holds no times"),
        (bytes(range(256)) * 8, "save it as UTF-8"),
        (b"\x00\x01\x02\x03" * 500, "save it as UTF-8"),
        (PLAIN.replace("Bye", "你好").encode() + b"\xff\n", "1 damaged place"),
        (PLAIN.encode("utf-16")[:-1], "save it as UTF-8"),
        (
            PLAIN.replace("00:00:03,000 --> 00:00:04,250", "00:00:03 --> 00:00:04").encode(),
            "not a line of times",
        ),
        (
            PLAIN.replace("00:00:03,000 --> 00:00:04,250", "00:03,000 --> 00:04,000").encode(),
            "not a line of times",
        ),
    ],
)
def test_bad_files_are_named(tmp_path: Path, data: bytes, says: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(SubtitleError, match=says) as error:
        load_subtitles(path)
    assert str(path) in str(error.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(SubtitleError, match=r"no subtitles at .*none.srt; check the path"):
        load_subtitles(tmp_path / "none.srt")
    with pytest.raises(SubtitleError, match="readable file"):
        load_subtitles(tmp_path)


HUGE = "9" * 400
ASS = "[Script Info]\nScriptType: v4.00+\n\n[Events]\n"


@pytest.mark.parametrize(
    "text",
    [
        f'[{{"start": 1, "end": {HUGE}, "line": "x"}}]',
        f'[{{"start": "0:0:1", "end": "{HUGE}", "line": "x"}}]',
        f'[{{"start": "0:0:1", "end": "{HUGE}:0:2", "line": "x"}}]',
        f'[{{"start": "0:0:1", "end": "{HUGE * 20}:0:2", "line": "x"}}]',
        '[{"start": 1, "end": 1e999, "line": "x"}]',
        '[{"start": NaN, "end": 1, "line": "x"}]',
        '[{"timestamp": [1, 2, 3], "text": "x"}]',
        f'[{{"start": 1, "end": 2, "line": {"[" * 90 + "]" * 90}}}]',
        "[" * 5000,
        '[{"line":' * 5000,
        f"1\n00:00:01,000 --> {HUGE}:00:02,000\nx\n",
        f"1\n{HUGE}:00:01,000 --> 00:00:02,000\nx\n",
        "1\n00:00:01,000 --> 999999999999:00:02,000\nx\n",
        "1\n00:00:01,000 --> 1e999\nx\n",
        f"WEBVTT\n\n00:01.000 --> {HUGE}:00:02.000\nx\n",
        f"{ASS}Dialogue: 0,0:00:01.00,{HUGE}:00:02.00,Default,,0,0,0,,x\n",
        f"{ASS}Dialogue: 0,0:00:01.00,1e999,Default,,0,0,0,,x\n",
    ],
)
def test_invalid_times_and_deep_nesting_are_an_error_of_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.srt"
    path.write_text(text)
    with pytest.raises(SubtitleError) as error:
        load_subtitles(path, duration=10.0)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "text", ["{" * 100_000, "{\\" * 50_000, "{\\p1}" * 50_000, "<i " * 50_000, "&#" + "1" * 5000 + ";"]
)
def test_malformed_markup_is_read_in_bounded_time(tmp_path: Path, text: str) -> None:
    start = time.process_time()
    marks, dashes = f"00:00:01,000 --> 00:00:02,000\n{text}\n", f"1:{'-' * 50_000}\n00:00:01,000 --> 00:00:02"
    for content in (marks, dashes):
        (tmp_path / "a.srt").write_text(content)
        load_subtitles(tmp_path / "a.srt")
    (tmp_path / "a.json").write_text(json.dumps([{"start": 1, "end": 2, "line": text}]))
    load_subtitles(tmp_path / "a.json")
    assert time.process_time() - start < 2


def test_a_pipe_and_an_invalid_name_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.srt")
    for path in (tmp_path / "pipe.srt", "a\0.srt", "n" * 5000):
        with pytest.raises(SubtitleError, match="readable file"):
            load_subtitles(path)


def test_a_drawing_is_not_text_but_what_surrounds_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.ass"
    for text, said in (
        (r"a{\p1}m 0 0 l 1 1{\p0}b", "ab"),
        (r"a{\i1}b{\i0}c{comment}d", "abcd"),
        (r"a{\pos(1,2)}b{\p1}m 0 0", "ab"),
        (r"a{\p1}m 0 0{\i1} l 1 1{\p0}b{\p1}m{\p0}c", "abc"),
        (r"a {\i1", r"a {\i1"),
    ):
        path.write_text(f"{ASS}Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{text}\n")
        assert load_subtitles(path).text() == said


# ---- queries ----------------------------------------------------------------------------------------------

TALK = Subtitles(
    (
        SubtitleLine(1.0, 3.0, "a"),
        SubtitleLine(2.0, 4.0, "b"),
        SubtitleLine(5.0, 5.0, "c"),
        SubtitleLine(6.0, 6.4, "d"),
    ),
    "hand",
)


@pytest.mark.parametrize(
    ("start", "end", "texts"),
    [
        (0, 1, ""),
        (0, 1.1, "a"),
        (2.5, 2.6, "ab"),
        (3, 5, "b"),
        (3, 5.1, "bc"),
        (5, 6, "c"),
        (0, 9, "abcd"),
        (7, 9, ""),
    ],
)
def test_between(start: float, end: float, texts: str) -> None:
    assert "".join(line.text for line in TALK.between(start, end)) == texts


@pytest.mark.parametrize(
    ("time", "texts"), [(0.9, ""), (1, "a"), (2, "ab"), (3, "b"), (4, ""), (5, "c"), (6.4, "")]
)
def test_at(time: float, texts: str) -> None:
    assert "".join(line.text for line in TALK.at(time)) == texts


@pytest.mark.parametrize(
    ("times", "texts"),
    [
        ([1.0], ""),  # strictly inside
        ([1.5], "a"),
        ([2.5], "ab"),
        ([5.49], "c"),  # widened to 4.5 .. 5.5
        ([5.5], ""),
        ([5.71], "d"),  # widened to 5.7 .. 6.7
        ([6.69, 0.0], "d"),
        ([3.0, 6.0], "bd"),
        ([], ""),
    ],
)
def test_visible_at(times: list[float], texts: str) -> None:
    assert "".join(line.text for line in TALK.visible_at(times)) == texts


def test_text() -> None:
    assert TALK.text() == "a\nb\nc\nd"


# ---- tracks in video files --------------------------------------------------------------------------------


ENGLISH = [(1.0, 2.5, "{\\i1}Hello{\\i0}\\Nyou"), (3.0, 4.0, "Bye")]
SAID_ENGLISH = [(1.0, 2.5, "Hello\nyou"), (3.0, 4.0, "Bye")]
GERMAN = [(1.0, 2.0, "Hallo")]


@pytest.mark.parametrize(
    ("name", "codec"), [("v.mkv", "subrip"), ("v.mkv", "ass"), ("v.mp4", "mov_text"), ("v.mkv", "webvtt")]
)
def test_embedded(tmp_path: Path, name: str, codec: str) -> None:
    path = with_subtitles(tmp_path / name, [(codec, "eng", ENGLISH)])
    found = embedded_subtitles(path)
    assert said(found.lines) == SAID_ENGLISH
    assert str(path) in found.source


COMPARED = [
    *("a < b and b > c", "if x<b and b>c then", "a <b and b> c", "1 < i > 2", "a < s > b", "5 <u 6> 7"),
    *(
        "if (a<b) && (b>c)",
        "p < 0.05",
        "I <3 you",
        "a < font > c",
        "a <= b >= c",
        "x <c = d> y",
        "<laughs> Hi",
    ),
]
TAGGED = [
    ("<i>it</i>, <B>up</B>, <u>u</u><s>s</s>", "it, up, us"),
    ('<font color="red" size=12>r</font><font color=#fff>s</font>', "rs"),
    ("<c.yellow.bg_black>Tea</c> a <00:00:01.500>b<00:01.700> c", "Tea a b c"),
    ("{\\an8}{\\i1}top{\\i0}", "top"),
    ("<i style='x: y'>a < b</i> <p dir=\"ltr\">and</p> c &lt;b&gt; &amp;", "a < b and c <b> &"),
    ("<ruby>a<rt>b</rt></ruby><lang en>c</lang>", "abc"),
]


@pytest.mark.parametrize("name", ["s.srt", "s.vtt", "s.ass", "subrip.mkv", "webvtt.mkv", "mov_text.mp4"])
def test_tags_go_and_what_is_compared_stays(tmp_path: Path, name: str) -> None:
    texts = [(text, text) for text in COMPARED] + TAGGED
    if name.endswith("vtt"):
        texts.append(("<v Bob>Fish</v> <v.loud Mary Ann>chips", "Fish chips"))
    path, kind = tmp_path / name, name.rpartition(".")[2]
    cues = [(number / 5, (number + 1) / 5, text) for number, (text, _) in enumerate(texts)]
    if kind in ("mkv", "mp4"):
        with_subtitles(path, [(name.partition(".")[0], "eng", cues)])
    elif kind == "ass":
        head = "Dialogue: 0,0:00:{:05.2f},0:00:{:05.2f},Default,,0,0,0,,{}\n"
        path.write_text(ASS_HEAD + "".join(head.format(*cue) for cue in cues))
    else:
        rows = ["00:00:{:06.3f} --> 00:00:{:06.3f}\n{}\n".format(*cue) for cue in cues]
        path.write_text(("" if kind == "srt" else "WEBVTT\n\n") + "\n".join(rows))
    assert [line.text for line in load_subtitles(path).lines] == [plain for _, plain in texts]


def test_embedded_times_are_those_of_the_frames(tmp_path: Path) -> None:
    """A picture that begins late shifts the subtitles with it: both count from the start of the video."""
    path = with_subtitles(tmp_path / "late.mkv", [("subrip", "eng", ENGLISH)], start=7.0)
    assert said(embedded_subtitles(path).lines) == SAID_ENGLISH


def test_embedded_track_by_number_language_and_title(tmp_path: Path) -> None:
    path = with_subtitles(
        tmp_path / "v.mkv",
        [("subrip", "eng", ENGLISH), ("ass", "ger", GERMAN)],
        titles=["English (SDH)", "Deutsch"],
    )
    for name in ("1", "ger", "de", "deu", "de-AT", "Deutsch", "deutsch", " GER "):
        assert said(embedded_subtitles(path, track=name).lines) == [(1, 2, "Hallo")], name
        assert said(load_subtitles(path, track=name).lines) == [(1, 2, "Hallo")], name
    for name in ("0", "eng", "en", "english", "sdh"):
        assert said(embedded_subtitles(path, track=name).lines) == SAID_ENGLISH, name
    for name in ("fra", "2", "-1", "utsch", ""):
        with pytest.raises(SubtitleError) as caught:
            embedded_subtitles(path, track=name)
        assert str(caught.value) == (
            f'{path} has no subtitle track {name!r}; it has 0: srt (eng), "English (SDH)"; '
            '1: ssa (ger), "Deutsch". Give --subtitle-track one of these numbers, a language or a title.'
        )


FORCED = [(3.5, 4.5, "Sprechen Sie Deutsch?")]
MANY = [(i * 0.4, i * 0.4 + 0.3, f"line {i}") for i in range(12)]
NO, DEFAULT = Disposition(0), Disposition.default
FORCED_FLAG, DEAF = Disposition.forced, Disposition.hearing_impaired


@pytest.mark.parametrize(
    ("tracks", "titles", "flags", "number"),
    [
        # A track of a part of what is said is the default one, or the first: by its flag, by its title.
        ([("eng", FORCED), ("eng", MANY)], (), [DEFAULT | FORCED_FLAG, NO], 1),
        ([("eng", FORCED), ("eng", MANY)], (), [FORCED_FLAG], 1),
        ([("eng", FORCED), ("eng", MANY)], ["Forced", "Full"], [DEFAULT, NO], 1),
        ([("eng", FORCED), ("eng", MANY)], ["English [forced]", "English"], (), 1),
        ([("jpn", MANY), ("jpn", MANY)], ["Signs & Songs", "Dialogue"], [DEFAULT, NO], 1),
        ([("eng", MANY), ("eng", MANY)], ["Director's Commentary", ""], [DEFAULT, NO], 1),
        ([("fre", FORCED), ("fre", MANY)], ["Français (forcés)", "Français"], [DEFAULT, NO], 1),
        # A title may name both, or say what the track is not.
        ([("eng", MANY), ("eng", MANY)], ["Full: dialogue, signs and songs", "x"], [DEFAULT, NO], 0),
        ([("eng", MANY), ("eng", MANY)], ["non-forced", "x"], [DEFAULT, NO], 0),
        # Unmarked, but empty, or with a few of the lines.
        ([("eng", []), ("eng", FORCED)], (), [DEFAULT, NO], 1),
        ([("eng", FORCED), ("eng", MANY)], (), [DEFAULT, NO], 1),
        # The language of the default track is kept, where it has a full one.
        ([("eng", FORCED), ("ger", MANY), ("eng", MANY)], (), [DEFAULT | FORCED_FLAG, NO, NO], 2),
        ([("eng", FORCED), ("ger", MANY)], (), [DEFAULT | FORCED_FLAG, NO], 1),
        # One for the deaf says all, and sounds too.
        ([("eng", MANY), ("eng", MANY)], ["SDH", "English"], (), 1),
        ([("eng", MANY), ("eng", MANY)], (), [DEAF, NO], 1),
        ([("eng", MANY), ("eng", MANY)], (), [DEFAULT | DEAF, NO], 0),
        ([("eng", FORCED), ("eng", MANY)], (), [DEFAULT | FORCED_FLAG, DEAF], 1),
        # Nothing but a forced one: better than none.
        ([("eng", FORCED)], ["Forced"], [DEFAULT | FORCED_FLAG], 0),
        # As before: the default one, else the first.
        ([("eng", MANY), ("ger", MANY)], (), [NO, DEFAULT], 1),
        ([("eng", MANY), ("ger", MANY)], (), (), 0),
    ],
)
def test_a_track_that_says_all_is_read(
    tmp_path: Path,
    tracks: list[tuple[str, list[tuple[float, float, str]]]],
    titles: list[str],
    flags: list[Disposition],
    number: int,
) -> None:
    path = with_subtitles(
        tmp_path / "film.mkv",
        [("subrip", language, cues) for language, cues in tracks],
        titles=titles,
        flags=flags,
    )
    found = embedded_subtitles(path)
    assert found.source == f"{path}, subtitle track {number}"
    assert [text for _, _, text in said(found.lines)] == [text for _, _, text in tracks[number][1]]
    # What is named is read, whatever it is.
    for place, (_, cues) in enumerate(tracks):
        assert len(embedded_subtitles(path, track=str(place)).lines) == len(cues)


def test_the_empty_samples_of_a_forced_track_in_mp4_are_no_lines(tmp_path: Path) -> None:
    path = with_subtitles(tmp_path / "v.mp4", [("mov_text", "eng", FORCED), ("mov_text", "eng", MANY)])
    assert len(embedded_subtitles(path).lines) == len(MANY)


# What is before the start of the video is not in it; the rest is cut to it.
LATE = (SubtitleLine(0.0, 1.25, "across"), SubtitleLine(3.1, 4.0, "after"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "early.srt",
            "1\n-00:00:05,000 --> -00:00:02,000\nbefore\n\n2\n-00:00:01,500 --> 00:00:01,250\nacross\n\n"
            "3\n00:00:03,100 --> 00:00:04,000\nafter\n",
        ),
        (
            "early.vtt",
            "WEBVTT\n\n−00:05.000 --> -00:02.000\nbefore\n\n-00:00:01.500 --> 00:01.250 align:start\nacross"
            "\n\n00:03.100 --> 00:00:04.000\nafter\n",
        ),
        (
            "early.ass",
            ASS_HEAD + "Dialogue: 0,-0:00:05.00,-0:00:02.00,Default,,0,0,0,,before\n"
            "Dialogue: 0,-0:00:01.50,0:00:01.25,Default,,0,0,0,,across\n"
            "Dialogue: 0,0:00:03.10,0:00:04.00,Default,,0,0,0,,after\n",
        ),
        (
            "early.json",
            json.dumps(
                [
                    {"start": "-00:00:05.000", "end": "-00:00:02.000", "line": "before"},
                    {"start": "-00:00:01.500", "end": "00:00:01.250", "line": "across"},
                    {"start": "00:00:03.100", "end": "00:00:04.000", "line": "after"},
                ]
            ),
        ),
        # A clock that began a day before the video.
        (
            "day.srt",
            "1\n-26:00:05,000 --> -26:00:02,000\nbefore\n\n2\n-0:00:01,500 --> 00:00:01,250\nacross\n\n"
            "3\n00:00:03,100 --> 00:00:04,000\nafter\n",
        ),
    ],
)
def test_times_before_the_start(tmp_path: Path, name: str, text: str) -> None:
    assert load_subtitles(write(tmp_path, text, name)).lines == LATE


def test_video_without_text_track(tmp_path: Path) -> None:
    with pytest.raises(SubtitleError, match=r"v.mp4 has no subtitle track; give a subtitle file"):
        embedded_subtitles(with_subtitles(tmp_path / "v.mp4", []))


def test_picture_subtitles_are_refused(tmp_path: Path) -> None:
    path = with_subtitles(tmp_path / "v.mkv", [("dvdsub", "eng", [])])
    with pytest.raises(SubtitleError, match="pictures, not text"):
        embedded_subtitles(path)


def test_no_video_is_a_video_error(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"said.srt"):
        embedded_subtitles(write(tmp_path, PLAIN))
    with pytest.raises(VideoError, match=r"none.mp4"):
        embedded_subtitles(tmp_path / "none.mp4")


def test_copied_track_of_a_file(tmp_path: Path) -> None:
    """A .srt copied into Matroska as FFmpeg's `-c copy` does it gives the same lines as the .srt itself."""
    path = tmp_path / "copied.mkv"
    with av.open(io.BytesIO(PLAIN.encode()), format="srt") as source, av.open(str(path), "w") as out:
        picture = out.add_stream("libx264", rate=10)
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        track = out.add_stream_from_template(source.streams.subtitles[0])
        for i in range(50):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), i, np.uint8), format="rgb24")
            out.mux(picture.encode(frame))
        out.mux(picture.encode(None))
        for packet in source.demux(source.streams.subtitles[0]):
            if packet.size:
                packet.stream = track
                out.mux(packet)
    assert embedded_subtitles(path).lines == load_subtitles(write(tmp_path, PLAIN)).lines == HELLO


def test_a_video_file_is_a_file_of_its_own_subtitles(tmp_path: Path) -> None:
    path = with_subtitles(tmp_path / "v.mp4", [("mov_text", "eng", ENGLISH)])
    assert has_embedded_subtitles(path)
    assert said(load_subtitles(path).lines) == SAID_ENGLISH
    assert said(load_subtitles(path, duration=2.0, start_offset=0.5).lines) == [(0.5, 2.0, "Hello\nyou")]
    plain = with_subtitles(tmp_path / "plain.mp4", [])
    pictures = with_subtitles(tmp_path / "pictures.mkv", [("dvdsub", "eng", [])])
    for other in (plain, pictures, write(tmp_path, PLAIN), tmp_path / "none.mp4", tmp_path):
        assert not has_embedded_subtitles(other)
    with pytest.raises(SubtitleError, match="has no subtitle track"):
        load_subtitles(plain)
