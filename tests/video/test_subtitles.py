"""Subtitles from files, from LongVideoBench's JSON and from tracks in video files that FFmpeg wrote.

Expected lines are written by hand beside each input.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from av.stream import Disposition

from tests.support.making_videos import ASS_HEAD, with_subtitles
from videopro.errors import SubtitleError, VideoError
from videopro.video import SubtitleLine, Subtitles, embedded_subtitles, has_embedded_subtitles, load_subtitles

PLAIN = "1\n00:00:01,000 --> 00:00:02,500\nHello\n\n2\n00:00:03,000 --> 00:00:04,250\nBye\n"


def write(folder: Path, text: str | bytes, name: str = "said.srt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def said(lines: tuple[SubtitleLine, ...]) -> list[tuple[float, float, str]]:
    return [(round(line.start, 3), round(line.end, 3), line.text) for line in lines]


def read(folder: Path, text: str, name: str = "said.srt", **options: float) -> list[tuple[float, float, str]]:
    """The lines of a file with this content."""
    return said(load_subtitles(write(folder, text, name), **options).lines)


def written(form: str, cues: list[tuple[str, str, str]]) -> str:
    """A file of these cues: their begin and end as H:MM:SS.cc, perhaps with a sign, and text."""
    if form == "json":
        return json.dumps([{"start": start, "end": end, "line": text} for start, end, text in cues])
    if form == "ass":
        rows = [f"Dialogue: 0,{start},{end},Default,,0,0,0,,{text}" for start, end, text in cues]
        return ASS_HEAD + "\n".join(rows)
    rows = [f"{start}0 --> {end}0\n{text}\n" for start, end, text in cues]
    return ("WEBVTT\n\n" if form == "vtt" else "") + "\n".join(rows)


# ---- text files -------------------------------------------------------------------------------------------


def test_srt(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    hello = (SubtitleLine(1.0, 2.5, "Hello"), SubtitleLine(3.0, 4.25, "Bye"))
    assert load_subtitles(path) == load_subtitles(str(path)) == Subtitles(hello, str(path))


FONTS = (
    '1\n00:00:01,000 --> 00:00:02,000\n<font color="white" size=".72c">Hello, <i>you</i></font>\n'
    '<font color="white" size=".72c">over there</font>\n\n'
    "2\n00:00:02,000 --> 00:00:03,000\n{\\an8}{\\i1}Up{\\i0} {here} &amp; 3 < 4 > 2\n\n"
    "3\n00:00:03,000 --> 00:00:04,000\nCount:\n42\n\n"
    "4\n00:00:04,000 --> 00:00:05,000\n\n"
    "5\n00:00:05,000 --> 00:00:06,000\n1984\n\n"
    "6\n00:00:06,000 --> 00:00:07,000\n<c.yellow>Tea</c> <B>or</B><br/>coffee\n"
)
# No numbers, no empty line before a cue, dots for commas, positions, over 100 hours, out of order.
UNTIDY = (
    "00:00:05.000 --> 00:00:06.000 X1:20 Y1:3\nlater\n\n"
    "00:00:01,000 --> 00:00:04,000\nfirst\n3\n00:00:02,000 --> 00:00:03,000\nwithin\n\n"
    "100:00:01,000 --> 100:00:02,000\nlast\n"
)
IN_ORDER = [(1, 4, "first"), (2, 3, "within"), (5, 6, "later"), (360001, 360002, "last")]
VTT = (
    "WEBVTT\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nNOTE not\nshown\n\nintro\n"
    "00:01.000 --> 00:02.500 align:start position:0%\n<v Bob>Fish &amp; chips</v>\n- 42\n\n"
    "01:00:00.000 --> 01:00:01.000\n<c.red>An <00:00:00.500>hour</c>&nbsp;later\n"
)
# As YouTube's automatic captions: each cue opens with the row before, between short holds.
ROLLING = (
    "WEBVTT\nKind: captions\nLanguage: en\n\n"
    "00:00:00.160 --> 00:00:03.429 align:start position:0%\n \n"
    "we<00:00:00.960><c> see</c><00:00:01.520><c> a</c>\n\n"
    "00:00:03.429 --> 00:00:03.439 align:start position:0%\nwe see a\n \n\n"
    "00:00:03.439 --> 00:00:05.749 align:start position:0%\nwe see a\ndog<00:00:03.760><c> and</c>\n\n"
    "00:00:05.749 --> 00:00:05.759 align:start position:0%\ndog and\n \n\n"
    "00:00:05.759 --> 00:00:08.000 align:start position:0%\ndog and\na<00:00:06.000><c> cat</c>\n\n"
    "00:00:20.000 --> 00:00:21.000 align:start position:0%\n \na<00:00:20.500><c> cat</c>\n"
)
ASS = ASS_HEAD + (
    "Dialogue: 0,0:00:01.00,0:00:02.50,Default,,0,0,0,,{\\i1}Hi, there{\\i0}\\Nyou{a comment}\\htwo\n"
    "Comment: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,hidden\n"
)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        (
            *("fonts.srt", FONTS),
            [
                *[(1, 2, "Hello, you\nover there"), (2, 3, "Up {here} & 3 < 4 > 2"), (3, 4, "Count:\n42")],
                *[(5, 6, "1984"), (6, 7, "Tea or\ncoffee")],
            ],
        ),
        *[("untidy.srt", UNTIDY.replace("\n", end), IN_ORDER) for end in ("\n", "\r\n", "\r")],
        ("said.vtt", VTT, [(1, 2.5, "Fish & chips\n- 42"), (3600, 3601, "An hour later")]),
        ("header.vtt", "WEBVTT\n", []),
        # "a cat" is said again, long after.
        (
            *("rolling.vtt", ROLLING),
            [(0.16, 3.439, "we see a"), (3.439, 5.759, "dog and"), (5.759, 8, "a cat"), (20, 21, "a cat")],
        ),
        ("said.ass", ASS, [(1, 2.5, "Hi, there\nyou two")]),
    ],
)
def test_what_is_said_when(
    name: str, text: str, lines: list[tuple[float, float, str]], tmp_path: Path
) -> None:
    assert read(tmp_path, text, name) == lines


@pytest.mark.parametrize(
    ("encodings", "speech"),
    [
        ("utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32", "Où ça? 你好 😀"),
        ("latin-1", "Où est passé l'été ? Hélène préfère les gâteaux à la crème brûlée, répondit-il."),
        ("cp1251", "Привет, как дела? Мы идём в магазин за хлебом и молоком."),
        ("gb18030", "你好，今天天气很好。我们去商店买面包和牛奶，然后回家看电视。"),
    ],
)
def test_encodings_are_detected(tmp_path: Path, encodings: str, speech: str) -> None:
    for encoding in encodings.split():
        path = write(tmp_path, PLAIN.replace("Bye", speech).encode(encoding))
        assert load_subtitles(path).lines[1].text == speech, encoding


def test_spoken_repeats_stay_and_a_caption_that_lasts_is_one_line(tmp_path: Path) -> None:
    def cues(*texts: str) -> str:
        return written("srt", [(f"0:00:0{i}.00", f"0:00:0{i + 1}.00", text) for i, text in enumerate(texts)])

    spoken = ["No!", "No!", "Why not?", "Because.", "Why?"]
    assert [text for _, _, text in read(tmp_path, cues(*spoken))] == spoken
    assert read(tmp_path, cues(*["[Music]"] * 4)) == [(0, 4, "[Music]")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"a{\p1}m 0 0 l 1 1{\p0}b", "ab"),
        (r"a{\p1}m 0 0{\i1} l 1 1{\p0}b{\p1}m{\p0}c", "abc"),
        (r"a {\i1", r"a {\i1"),
    ],
)
def test_a_drawing_is_not_text_but_what_surrounds_it_is(tmp_path: Path, text: str, shown: str) -> None:
    cues = written("ass", [("0:00:01.00", "0:00:02.00", text)])
    assert read(tmp_path, cues, "said.ass") == [(1, 2, shown)]


# ---- LongVideoBench, Video-MME-v2 --------------------------------------------------------------------------


def test_longvideobench(tmp_path: Path) -> None:
    clocks = [
        {"start": "00:01:40.500", "end": "00:01:42.000", "line": '<font color="white">Hello</font>'},
        {"start": "0:1:43", "end": "0:1:44.25", "line": "you"},
    ]
    stamps = [
        {"timestamp": [99.0, 100.5], "text": "begun before"},
        {"timestamp": [95, 100], "text": "over before"},
        {"timestamp": [140, 135], "text": "backwards"},
        {"timestamp": [130.25, None], "text": "to the end"},
        {"timestamp": [158, 170.0], "text": "cut"},
        {"timestamp": [160, 161], "text": "too late"},
        {"timestamp": [110, 111], "text": ""},
    ]
    for records, lines in (
        (clocks, [(0.5, 2, "Hello"), (3, 4.25, "you")]),
        (
            stamps,
            [(0, 0.5, "begun before"), (30.25, 60, "to the end"), (40, 40, "backwards"), (58, 60, "cut")],
        ),
        ([], []),
    ):
        assert read(tmp_path, json.dumps(records), "x_en.json", duration=60, start_offset=100) == lines
    with pytest.raises(SubtitleError, match=r"x_en.json: line 3 has no end"):
        read(tmp_path, json.dumps(stamps), "x_en.json", start_offset=100)


def test_words_of_video_mme_v2_are_joined_to_sentences(tmp_path: Path) -> None:
    words = [("Hello", 1, 1.2), ("there.", 1.3, 1.5), ("We", 1.61, 2), ("go", 2.5, 2.6), ("on", 3.11, 3.2)]
    rows = [json.dumps({"text": text, "start_time": start, "end_time": end}) for text, start, end in words]
    # A pause of 0.11 s after a full stop, none of 0.5 s, and one of 0.51 s.
    expected = [(1, 1.5, "Hello there."), (1.61, 2.6, "We go"), (3.11, 3.2, "on")]
    assert read(tmp_path, "\n".join(rows) + "\n\n", "001.jsonl") == expected
    assert read(tmp_path, "\n", "002.jsonl") == [], "nothing is said"
    with pytest.raises(SubtitleError, match=r"003.jsonl: line 2 "):
        read(tmp_path, rows[0] + '\n{"text": "x"}', "003.jsonl")


# ---- bad files --------------------------------------------------------------------------------------------

HUGE = "9" * 400
BAD: list[tuple[str | bytes, str]] = [
    (b"", "is empty; download it again"),
    (b"\xef\xbb\xbf", "is empty"),
    ("Hello\nBye\n", "has no times"),
    (bytes(range(256)) * 8, "save it as UTF-8"),
    (b"\x00\x01\x02\x03" * 500, "save it as UTF-8"),
    (PLAIN.replace("Bye", "你好").encode() + b"\xff\n", "1 invalid byte"),
    (PLAIN.encode("utf-16")[:-1], "save it as UTF-8"),
    (PLAIN.replace("00:00:03,000 --> 00:00:04,250", "00:00:03 --> 00:00:04"), "not a line with times"),
    # As LongVideoBench writes them.
    ('[{"start": "0:0:1"', "invalid JSON"),
    ("{}", "not a list of lines"),
    ('[{"start": "0:0:1", "line": "x"}]', "line 0 .*KeyError: 'end'"),
    ('[{"start": "x:0:1", "end": "0:0:2", "line": "x"}]', "'x:0:1' is not a time"),
    ('[{"timestamp": [1, 2], "text": 3}]', "line 0"),
    # Times that cannot be, and deep nesting.
    (f'[{{"start": 1, "end": {HUGE}, "line": "x"}}]', ""),
    (f'[{{"start": "0:0:1", "end": "{HUGE * 20}:0:2", "line": "x"}}]', ""),
    ('[{"start": 1, "end": 1e999, "line": "x"}]', ""),
    ('[{"start": NaN, "end": 1, "line": "x"}]', ""),
    ("[" * 5000, ""),
    (f"1\n00:00:01,000 --> {HUGE}:00:02,000\nx\n", ""),
    ("1\n00:00:01,000 --> 999999999999:00:02,000\nx\n", ""),
    (f"WEBVTT\n\n00:01.000 --> {HUGE}:00:02.000\nx\n", ""),
    (f"{ASS_HEAD}Dialogue: 0,0:00:01.00,{HUGE}:00:02.00,Default,,0,0,0,,x\n", ""),
]


@pytest.mark.parametrize(("data", "says"), BAD)
def test_bad_files_are_named(tmp_path: Path, data: str | bytes, says: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(SubtitleError, match=says or None) as error:
        load_subtitles(path, duration=60)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 1000


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.srt")
    for path in (tmp_path, tmp_path / "pipe.srt", "a\0.srt", "n" * 5000):
        with pytest.raises(SubtitleError, match="readable file"):
            load_subtitles(path)
    with pytest.raises(SubtitleError, match=r"none.srt; check the path"):
        load_subtitles(tmp_path / "none.srt")


@pytest.mark.parametrize(
    "text", ["{" * 100_000, "{\\" * 50_000, "{\\p1}" * 50_000, "<i " * 50_000, "&#" + "1" * 5000 + ";"]
)
def test_malformed_markup_is_read_in_bounded_time(tmp_path: Path, text: str) -> None:
    start = time.process_time()
    read(tmp_path, f"00:00:01,000 --> 00:00:02,000\n{text}\n")
    read(tmp_path, f"1:{'-' * 50_000}\n00:00:01,000 --> 00:00:02")
    read(tmp_path, json.dumps([{"start": 1, "end": 2, "line": text}]), "a.json")
    assert time.process_time() - start < 2


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
    ("query", "asked", "texts"),
    [
        *[("between", (0, 1), ""), ("between", (0, 1.1), "a"), ("between", (2.5, 2.6), "ab")],
        *[("between", (3, 5), "b"), ("between", (3, 5.1), "bc"), ("between", (5, 6), "c")],
        *[("between", (0, 9), "abcd"), ("between", (7, 9), "")],
        *[("at", (0.9,), ""), ("at", (1,), "a"), ("at", (2,), "ab"), ("at", (3,), "b"), ("at", (4,), "")],
        *[("at", (5,), "c"), ("at", (6.4,), "")],
        # Strictly inside; short ones are widened, to 4.5 .. 5.5 and 5.7 .. 6.7.
        *[("visible_at", ([1.0],), ""), ("visible_at", ([1.5],), "a"), ("visible_at", ([2.5],), "ab")],
        *[("visible_at", ([5.49],), "c"), ("visible_at", ([5.5],), ""), ("visible_at", ([5.71],), "d")],
        *[("visible_at", ([6.69, 0],), "d"), ("visible_at", ([3, 6],), "bd"), ("visible_at", ([],), "")],
    ],
)
def test_lines_at_times(query: str, asked: tuple[Any, ...], texts: str) -> None:
    assert "".join(line.text for line in getattr(TALK, query)(*asked)) == texts
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
    # A video file is a file of its own subtitles.
    assert has_embedded_subtitles(path)
    assert said(load_subtitles(path, duration=2.0, start_offset=0.5).lines) == [(0.5, 2.0, "Hello\nyou")]


COMPARED = [
    *("a < b and b > c", "if x<b and b>c then", "a <b and b> c", "1 < i > 2", "a < s > b", "5 <u 6> 7"),
    *("if (a<b) && (b>c)", "p < 0.05", "I <3 you", "a < font > c", "a <= b >= c", "x <c = d> y"),
    "<laughs> Hi",
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
    path, form = tmp_path / name, name.rpartition(".")[2]
    if form in ("mkv", "mp4"):
        timed = [(number / 5, (number + 1) / 5, text) for number, (text, _) in enumerate(texts)]
        with_subtitles(path, [(name.partition(".")[0], "eng", timed)])
    else:
        cues = [(f"0:00:{n:02}.00", f"0:00:{n + 1:02}.00", text) for n, (text, _) in enumerate(texts)]
        write(tmp_path, written(form, cues), name)
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
        with pytest.raises(SubtitleError, match=r'0: srt \(eng\), "English \(SDH\)"; 1: ssa'):
            embedded_subtitles(path, track=name)


FORCED = [(3.5, 4.5, "Sprechen Sie Deutsch?")]
MANY = [(i * 0.4, i * 0.4 + 0.3, f"line {i}") for i in range(12)]
NO, DEFAULT = Disposition(0), Disposition.default
FORCED_FLAG, DEAF = Disposition.forced, Disposition.hearing_impaired


@pytest.mark.parametrize(
    ("tracks", "titles", "flags", "number"),
    [
        # A track of a part of what is said is the default one, or the first: by its flag, by its title.
        ([("eng", FORCED), ("eng", MANY)], (), [DEFAULT | FORCED_FLAG, NO], 1),
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
        tmp_path / "video.mkv",
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


@pytest.mark.parametrize("form", ["srt", "vtt", "ass", "json"])
@pytest.mark.parametrize("minus", ["-", "−"])
@pytest.mark.parametrize("hours", [0, 26])
def test_times_before_the_start(tmp_path: Path, form: str, minus: str, hours: int) -> None:
    """What is before the start of the video is not in it, the rest is cut to it, also where a clock began a
    day before."""
    cues = [
        (f"{minus}{hours:02}:00:05.00", f"{minus}{hours:02}:00:02.00", "before"),
        (f"{minus}00:00:01.50", "00:00:01.25", "across"),
        ("00:00:03.10", "00:00:04.00", "after"),
    ]
    assert read(tmp_path, written(form, cues), f"early.{form}") == [(0, 1.25, "across"), (3.1, 4, "after")]


def test_videos_without_a_track_of_text(tmp_path: Path) -> None:
    plain = with_subtitles(tmp_path / "plain.mp4", [])
    pictures = with_subtitles(tmp_path / "pictures.mkv", [("dvdsub", "eng", [])])
    for path, named in ((plain, "plain.mp4 has no subtitle track"), (pictures, "images, not text")):
        with pytest.raises(SubtitleError, match=named):
            embedded_subtitles(path)
    with pytest.raises(SubtitleError, match="has no subtitle track"):
        load_subtitles(plain)
    for path in (text := write(tmp_path, PLAIN), none := tmp_path / "none.mp4"):
        with pytest.raises(VideoError, match=path.name):
            embedded_subtitles(path)
    assert not any(has_embedded_subtitles(path) for path in (plain, pictures, text, none, tmp_path))
