"""LongVR's sources: hand-made annotations in the official formats, with broken records and missing videos."""

from __future__ import annotations

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


def video(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def activitynet(root: Path) -> None:
    (root / "train.json").write_text(json.dumps(ACTIVITYNET))
    for letter in "ABCD":
        video(root / "videos" / f"v_{letter * 11}.mp4")


def youcook2(root: Path) -> None:
    (root / "annotations").mkdir()
    (root / "annotations" / "youcookii_annotations_trainval.json").write_text(json.dumps(YOUCOOK2))
    for letter in "abcde":
        video(root / "raw_videos" / "training" / "113" / f"{letter * 11}.mkv")


def vitt(root: Path) -> None:
    lines = [json.dumps(line) for line in VITT]
    (root / "ViTT-annotations.json").write_text("\n".join([*lines, '{"id": "FmTp"', ""]))
    (root / "train_id.txt").write_text("FmTp\n")
    video(root / "FmTp.webm")


def openvid(root: Path) -> None:
    (root / "OpenVid-1M.csv").write_text(OPENVID)
    video(root / "part_3" / "aaa_0_0to100.mp4")


def moviechat(root: Path) -> None:
    (root / "jsons").mkdir()
    about: dict[str, Any] = {
        "info": {"video_path": "AWA-6.mp4", "fps": 24},
        "caption": "A film.",
        "global": [],
    }
    (root / "jsons" / "AWA-6.json").write_text(json.dumps(about))
    (root / "jsons" / "AWB-1.json").write_text(json.dumps({"info": {"video_path": "AWB-1.mp4"}}))
    (root / "jsons" / "AWC-1.json").write_text(json.dumps({"info": [], "caption": "No name."}))
    (root / "jsons" / "AWD-1.json").write_text("{")
    video(root / "raw_videos" / "AWA-6.mp4")


MAKE = {
    "activitynet": activitynet, "youcook2": youcook2, "vitt": vitt, "openvid": openvid, "moviechat": moviechat
}  # fmt: skip


def expected(name: str, units: Units, root: Path) -> list[CaptionPair]:
    whole = units == "videos"
    if name == "activitynet":
        path = root / "videos" / "v_AAAAAAAAAAA.mp4"
        first, second = "A young woman stands in a kitchen.", "She pours milk."
        if whole:
            # The swapped interval of the second sentence is in order again; "5" is not read.
            return [
                CaptionPair(first, path),
                CaptionPair(second, path),
                CaptionPair("One.", root / "videos" / "v_CCCCCCCCCCC.mp4"),
            ]
        return [CaptionPair(first, path, 0.83, 19.86), CaptionPair(second, path, 17.37, 60.81)]
    if name == "youcook2":
        path = root / "raw_videos" / "training" / "113" / "aaaaaaaaaaa.mkv"
        if whole:
            return [CaptionPair("spread butter on two slices of bread. place cheese on the bread.", path)]
        return [
            CaptionPair("spread butter on two slices of bread", path, 90.0, 102.0),
            CaptionPair("place cheese on the bread.", path, 114.0, 127.0),
        ]
    if name == "vitt":
        path = root / "FmTp.webm"
        if whole:
            captions = "Opening. Showing feet. Displaying technique.", "Intro."
            return [CaptionPair(caption, path) for caption in captions]
        return [
            CaptionPair("Opening", path, 0.26, 16.0),
            CaptionPair("Displaying technique", path, 16.0, 23.99),
            CaptionPair("Showing feet", path, 23.99, None),
            CaptionPair("Intro", path, 0.1, None),
        ]
    if name == "openvid":
        return [CaptionPair("A man, seated, talks.", root / "part_3" / "aaa_0_0to100.mp4")]
    return [CaptionPair("A film.", root / "raw_videos" / "AWA-6.mp4")]


# For each source: the places and problems of its broken records (segments), and its missing videos.
BROKEN = {
    "activitynet": [
        ("'v_BBBBBBBBBBB'", "'timestamps' and 'sentences' are not lists of one length"),
        ("'v_CCCCCCCCCCC'", "the time '5' is not a number"),
        ("'v_DDDDDDDDDDD'", "has no field 'timestamps'"),
    ],
    "youcook2": [
        ("'ccccccccccc'", "the interval [5, 2] is not a start before an end"),
        ("'ddddddddddd'", "a caption is 7; it must be a text"),
        ("'eeeeeeeeeee'", "'annotations' is not a list of steps"),
    ],
    "vitt": [("line 3", "the time -1 is not a number from 0"), ("line 5", "is not valid JSON")],
    "openvid": [("line 3", "a caption is ''"), ("line 4", "does not have the columns of the first line")],
    "moviechat": [
        ("AWB-1.json", "has no field 'caption'"),
        ("AWC-1.json", "is not an object"),
        ("AWD-1.json", "cannot be read"),
    ],
}
MISSING = {"activitynet": {"v_missing": 2}, "openvid": {"ddd_0_0to90.mp4": 1}}


@pytest.mark.parametrize("name", list(LONGVR))
@pytest.mark.parametrize("units", ["segments", "videos"])
def test_a_source_gives_its_pairs_and_names_what_it_leaves_out(
    name: str, units: Units, tmp_path: Path
) -> None:
    MAKE[name](tmp_path)
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
        folders[name].mkdir()
        MAKE[name](folders[name])
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
    openvid(tmp_path)
    (tmp_path / "part_3" / "aaa_0_0to100.mp4").unlink()
    with pytest.raises(DatasetError, match=r"openvid: .* aaa_0"):
        load_pairs({"openvid": tmp_path}, "segments", **given)
