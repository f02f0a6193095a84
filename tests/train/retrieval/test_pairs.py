"""LongVR's sources: hand-made annotations in the official formats, with broken records and missing videos."""

import json
from pathlib import Path
from typing import Any

import pytest

from videopro.errors import ConfigError, DatasetError
from videopro.train.retrieval.pairs import LONGVR, CaptionPair, Units, load_pairs

ACTIVITYNET = {
    "v_AAAAAAAAAAA": {
        "duration": 82.73,
        "timestamps": [[0.83, 19.86], [60.81, 17.37]],
        "sentences": [" A young woman stands\nin a kitchen.", "She pours milk."],
    },
    "v_BBBBBBBBBBB": {"duration": 10, "timestamps": [[0, 5]], "sentences": ["One.", "Two."]},
    "v_CCCCCCCCCCC": {"duration": 10, "timestamps": [[0, "5"]], "sentences": ["One."]},
    "v_DDDDDDDDDDD": {"duration": 10, "sentences": ["One."]},
    "v_missing": {"duration": 9, "timestamps": [[0, 5], [5, 9]], "sentences": ["One.", "Two."]},
}
YOUCOOK2 = {
    "database": {
        "aaaaaaaaaaa": {
            "duration": 241.62,
            "subset": "training",
            "recipe_type": "113",
            "annotations": [
                {"segment": [90, 102], "id": 0, "sentence": "spread butter on two slices of bread"},
                {"segment": [114, 127], "id": 1, "sentence": "place cheese on the bread."},
            ],
            "video_url": "https://www.youtube.com/watch?v=aaaaaaaaaaa",
        },
        "bbbbbbbbbbb": {"subset": "validation", "annotations": [{"segment": [1, 2], "sentence": "held out"}]},
        "ccccccccccc": {"subset": "training", "annotations": [{"segment": [5, 2], "sentence": "backwards"}]},
        "ddddddddddd": {"subset": "training", "annotations": [{"segment": [1, 2], "sentence": 7}]},
        "eeeeeeeeeee": {"subset": "training", "annotations": []},
    }
}
VITT = [
    {
        "id": "FmTp",
        "annotations": [
            {"timestamp": 260, "tag": "Opening"},
            {"timestamp": 23990, "tag": "Showing feet"},
            {"timestamp": 16000, "tag": "Displaying technique"},
        ],
    },
    {"id": "FmTp", "annotations": [{"timestamp": 100, "tag": "Intro"}]},
    {"id": "FmTp", "annotations": [{"timestamp": -1, "tag": "Before"}]},
    {"id": "Held", "annotations": [{"timestamp": 100, "tag": "Intro"}]},
]
OPENVID = (
    "video,caption,aesthetic score,motion score,temporal consistency score,camera motion,frame,fps,seconds\n"
    'aaa_0_0to100.mp4,"A man, seated, talks.",5.1,3.2,0.99,static,100,25.0,4.0\n'
    "bbb_0_0to90.mp4,,4.9,1.1,0.98,pan_left,90,30.0,3.0\n"
    "ccc_0_0to90.mp4,Too few columns\n"
    "ddd_0_0to90.mp4,A dog runs.,4.9,1.1,0.98,pan_left,90,30.0,3.0\n"
)


FILM = {"info": {"video_path": "AWA-6.mp4", "fps": 24}, "caption": "A film.", "global": []}
FILES = {
    "activitynet": {"train.json": json.dumps(ACTIVITYNET)},
    "youcook2": {"annotations/youcookii_annotations_trainval.json": json.dumps(YOUCOOK2)},
    "vitt": {
        "ViTT-annotations.json": "\n".join([*map(json.dumps, VITT), '{"id": "FmTp"', ""]),
        "train_id.txt": "FmTp\n",
    },
    "openvid": {"OpenVid-1M.csv": OPENVID},
    "moviechat": {
        "jsons/AWA-6.json": json.dumps(FILM),
        "jsons/AWB-1.json": json.dumps({"info": {"video_path": "AWB-1.mp4"}}),
        "jsons/AWC-1.json": json.dumps({"info": [], "caption": "No name."}),
        "jsons/AWD-1.json": "{",
    },
}
VIDEOS = {
    "activitynet": [f"videos/v_{letter * 11}.mp4" for letter in "ABCD"],
    "youcook2": [f"raw_videos/training/113/{letter * 11}.mkv" for letter in "abcde"],
    "vitt": ["FmTp.webm"],
    "openvid": ["part_3/aaa_0_0to100.mp4"],
    "moviechat": ["raw_videos/AWA-6.mp4"],
}


def make(name: str, root: Path) -> None:
    for path, text in {**FILES[name], **dict.fromkeys(VIDEOS[name], "")}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


# By the number of the video: caption and interval of each pair.
SEGMENTS: dict[str, list[tuple[int, str, float, float | None]]] = {
    "activitynet": [
        (0, "A young woman stands in a kitchen.", 0.83, 19.86),
        # Its interval is in order again.
        (0, "She pours milk.", 17.37, 60.81),
    ],
    "youcook2": [
        (0, "spread butter on two slices of bread", 90.0, 102.0),
        (0, "place cheese on the bread.", 114.0, 127.0),
    ],
    "vitt": [
        (0, "Opening", 0.26, 16.0),
        (0, "Displaying technique", 16.0, 23.99),
        (0, "Showing feet", 23.99, None),
        (0, "Intro", 0.1, None),
    ],
}
WHOLE = {
    # The time "5" is not read.
    "activitynet": [(0, "A young woman stands in a kitchen."), (0, "She pours milk."), (2, "One.")],
    "youcook2": [(0, "spread butter on two slices of bread. place cheese on the bread.")],
    "vitt": [(0, "Opening. Showing feet. Displaying technique."), (0, "Intro.")],
    "openvid": [(0, "A man, seated, talks.")],
    "moviechat": [(0, "A film.")],
}


def expected(name: str, units: Units, root: Path) -> list[CaptionPair]:
    pairs = SEGMENTS.get(name, WHOLE[name]) if units == "segments" else WHOLE[name]
    return [CaptionPair(caption, root / VIDEOS[name][of], *times) for of, caption, *times in pairs]


# For each source: the places and problems of its broken records (segments), and its missing videos.
BROKEN = {
    "activitynet": [
        ("'v_BBBBBBBBBBB'", "'timestamps' and 'sentences' must be lists of equal length"),
        ("'v_CCCCCCCCCCC'", "time is '5'; it must be a number"),
        ("'v_DDDDDDDDDDD'", "has no field 'timestamps'"),
    ],
    "youcook2": [
        ("'ccccccccccc'", "interval [5, 2] must be a start before an end"),
        ("'ddddddddddd'", "caption is 7; it must be a non-empty string"),
        ("'eeeeeeeeeee'", "'annotations' must be a list of steps"),
    ],
    "vitt": [("line 3", "time is -1; it must be a number from 0"), ("line 5", "invalid JSON")],
    "openvid": [("line 3", "caption is ''"), ("line 4", "its columns differ from the first line's")],
    "moviechat": [
        ("AWB-1.json", "has no field 'caption'"),
        ("AWC-1.json", "is not an object"),
        ("AWD-1.json", "cannot be read"),
    ],
}
MISSING = {"activitynet": {"v_missing": 2}, "openvid": {"ddd_0_0to90.mp4": 1}}


@pytest.mark.parametrize("name", list(LONGVR))
@pytest.mark.parametrize("units", ["segments", "videos"])
def test_a_source_gives_its_pairs_and_names_the_rest(name: str, units: Units, tmp_path: Path) -> None:
    make(name, tmp_path)
    found = LONGVR[name](tmp_path, units)
    assert found.pairs == expected(name, units, tmp_path)
    assert found.missing == MISSING.get(name, {})
    broken = [entry for entry in BROKEN[name] if units == "segments" or "'5'" not in entry[1]]
    assert len(found.broken) == len(broken)
    for line, (where, what) in zip(found.broken, broken, strict=True):
        place, _, problem = line.partition(": ")
        assert str(tmp_path) in place
        assert where in place
        assert what in problem


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        *((name, "", "") for name in LONGVR),
        ("activitynet", "train.json", "[]"),
        ("activitynet", "train.json", "{"),
        ("youcook2", "youcookii_annotations_trainval.json", "{}"),
        ("openvid", "OpenVid-1M.csv", "name,text\na,b\n"),
    ],
)
def test_no_file_or_another_one_is_refused(name: str, file: str, content: str, tmp_path: Path) -> None:
    if file:
        (tmp_path / file).write_text(content)
    with pytest.raises(DatasetError, match=f"{name}: .*{file}"):
        LONGVR[name](tmp_path, "segments")


def test_sources_are_joined_counted_and_limited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = {}
    for name in ("activitynet", "vitt"):
        folders[name] = tmp_path / name
        make(name, folders[name])
    with pytest.raises(DatasetError, match=r"activitynet: 3 broken records: "):
        load_pairs(folders, "segments", limits={}, seed=0, skip_broken=False)
    capsys.readouterr()
    every = load_pairs(folders, "segments", limits={}, seed=0, skip_broken=True)
    assert len(every) == 6
    shown = capsys.readouterr().out
    assert "activitynet: 2 pairs" in shown
    assert "3 broken records: " in shown
    assert "1 missing videos (2 pairs): v_missing" in shown
    some = load_pairs(folders, "segments", limits={"vitt": 2}, seed=0, skip_broken=True)
    assert some[:2] == every[:2]
    assert len(some) == 4
    assert set(some) < set(every)
    assert some == load_pairs(folders, "segments", limits={"vitt": 2}, seed=0, skip_broken=True)


def test_what_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    given: dict[str, Any] = {"limits": {}, "seed": 0, "skip_broken": True}
    with pytest.raises(ConfigError, match="source 'youcook'"):
        load_pairs({"youcook": tmp_path}, "segments", **given)
    with pytest.raises(DatasetError, match=r"vitt: folder .*nowhere does not exist"):
        load_pairs({"vitt": tmp_path / "nowhere"}, "segments", **given)
    make("openvid", tmp_path)
    (tmp_path / "part_3" / "aaa_0_0to100.mp4").unlink()
    with pytest.raises(DatasetError, match=r"openvid: .* aaa_0"):
        load_pairs({"openvid": tmp_path}, "segments", **given)
