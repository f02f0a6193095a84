"""The database: captions, subjects, embeddings; resumed, shared, damaged."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.dvd_world import LINES, ColourWords, builder, captioner, describe
from tests.support.scripted_model import ScriptedModel
from videopro.errors import BackboneError
from videopro.methods.dvd.database import Database, DatabaseBuilder, clip_borders
from videopro.methods.dvd.settings import DvdSettings
from videopro.video import SubtitleLine, Subtitles

SCENES = ("grey", "red", "grey", "blue", "grey", "green")


def captions(database: Database) -> list[str]:
    return [clip.caption for clip in database.clips]


EXPECTED = [f"A {colour} place, and nothing else." for colour in SCENES]


def lines_of(built: DatabaseBuilder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in built.path().read_text().splitlines()]


# ---- building --------------------------------------------------------------------------------------------


def test_each_clip_is_captioned_with_the_registry_so_far(tmp_path: Path) -> None:
    """S_i, c_i = VLM(f_i, S_{i-1}) of section 3.1."""
    model = captioner()
    database = builder(tmp_path, model).build()
    assert captions(database) == EXPECTED
    assert [(clip.start, clip.end) for clip in database.clips] == [
        (10.0 * i, 10.0 * i + 10) for i in range(6)
    ]
    assert [len(request.frames) for request in model.requests] == [10] * 6
    assert "grey place" not in model.requests[0].prompt
    assert "grey place: plain grey. glows. 0-10 s" in model.requests[1].prompt
    assert "red place" not in model.requests[1].prompt
    assert "grey place: plain grey. glows. 0-10 s, 20-30 s" in model.requests[3].prompt
    subjects = {subject.name: subject.spans for subject in database.registry.subjects}
    assert subjects == {
        "grey place": [(0.0, 10.0), (20.0, 30.0), (40.0, 50.0)],
        "red place": [(10.0, 20.0)],
        "blue place": [(30.0, 40.0)],
        "green place": [(50.0, 60.0)],
    }


def test_the_cost_is_that_of_all_clips_whichever_run_made_them(tmp_path: Path) -> None:
    made = builder(tmp_path, captioner()).build().preparation
    assert (made.kind, made.is_known) == ("database", True)
    assert (made.cost.calls, made.cost.frames, made.cost.tokens_in) == (6, 60, 600)
    assert made.cost.seconds > 0
    model = captioner()
    assert builder(tmp_path, model).build().preparation == made
    assert model.requests == []


def test_a_killed_build_goes_on_with_the_clips_that_are_missing(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def killed(prompt: str, frames: object) -> str:
        raise Killed

    with pytest.raises(Killed):
        builder(tmp_path, ScriptedModel([describe, describe, describe, killed])).build()
    model = captioner()
    again = builder(tmp_path, model)
    database = again.build()
    assert captions(database) == EXPECTED
    # The registry of the clips before is shown to the first of the rest.
    assert [("red place" in request.prompt) for request in model.requests] == [True] * 3
    assert "30.0 to 40.0 s" in model.requests[0].prompt
    assert database.preparation.cost.calls == 6
    seconds = sum(line["cost"]["seconds"] for line in lines_of(again))
    assert database.preparation.cost.seconds == pytest.approx(seconds)


def test_a_half_written_line_is_captioned_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = builder(tmp_path, captioner())
    first.build()
    content = first.path().read_bytes()
    first.path().write_bytes(content[:-20])
    model = captioner()
    assert captions(builder(tmp_path, model).build()) == EXPECTED
    assert len(model.requests) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "damage",
    [
        b"\x00\xff garbage",
        b'{"clip": 2}',
        b"[]",
        # A clip of other times, and one that there is not.
        b'{"clip": 2, "start": 20.0, "end": 25.0, "caption": "no", "cost": {}}',
        b'{"clip": 9, "start": 20.0, "end": 30.0, "caption": "no", "cost": {}}',
    ],
)
def test_a_damaged_line_is_captioned_again(
    damage: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = builder(tmp_path, captioner())
    first.build()
    lines = first.path().read_bytes().splitlines()
    first.path().write_bytes(b"\n".join([*lines[:2], damage, *lines[3:]]) + b"\n")
    model = captioner()
    database = builder(tmp_path, model).build()
    assert captions(database) == EXPECTED
    # With the registry of the two clips before.
    assert ["20.0 to 30.0 s" in request.prompt for request in model.requests] == [True]
    assert "blue place" not in model.requests[0].prompt
    assert "1 damaged lines; captioning 1 clips again" in capsys.readouterr().err
    assert database.preparation.cost.calls == 6
    # Once it is repaired, it is not mentioned again.
    builder(tmp_path, captioner()).build()
    assert capsys.readouterr().err == ""


def test_one_builds_and_the_other_waits(tmp_path: Path) -> None:
    """Locks belong to open files, so threads stand for processes here."""
    model = captioner()
    built: list[Database] = []
    threads = [
        threading.Thread(target=lambda: built.append(builder(tmp_path, model).build())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [captions(database) for database in built] == [EXPECTED] * 2
    assert built[0].preparation == built[1].preparation
    assert len(model.requests) == 6


# ---- replies ---------------------------------------------------------------------------------------------


def test_a_caption_that_cannot_be_parsed_is_empty_and_counted(tmp_path: Path) -> None:
    lines: list[Any] = [describe, "a red place", "still a red place", *[describe] * 4]
    database = builder(tmp_path, ScriptedModel(lines)).build()
    assert captions(database) == [EXPECTED[0], "", *EXPECTED[2:]]
    assert database.clips[1].fault == "there is no JSON object in the reply"
    assert database.notes == ("1 of 6 clips of the database have no caption: unparsed",)
    assert database.preparation.cost.calls == 7
    assert [clip.clip for clip, _ in database.search.best("red place", 9)] == [0, 2, 3, 4, 5]
    # It is not asked for again.
    assert builder(tmp_path, ScriptedModel([])).build().notes == database.notes


def test_a_repaired_caption_counts(tmp_path: Path) -> None:
    database = builder(tmp_path, ScriptedModel(["a place", *[describe] * 6])).build()
    assert captions(database) == EXPECTED
    assert database.notes == ()


def test_a_captioner_of_plain_sentences_needs_no_json(tmp_path: Path) -> None:
    model = ScriptedModel(["A place\n of one colour."], forever=True)
    database = builder(tmp_path, model, registry="none").build()
    assert captions(database) == ["A place of one colour."] * 6
    assert database.registry.subjects == []
    assert model.requests[0].prompt.endswith("Reply in one sentence.")
    assert "{" not in model.requests[0].prompt


# ---- subjects in parallel --------------------------------------------------------------------------------


def described_apart(prompt: str, frames: Any) -> Any:
    """All clips name their place alike, so that only the merge can tell them apart."""
    if frames:
        return {**describe(prompt, frames), "subjects": [{"name": "place"}]}
    return {
        "subjects": [
            {"name": "grey room", "mentions": [0, 2, 4], "identity": "a hall"},
            {"name": "garden", "mentions": [1, 3, 4, 99]},
        ]
    }


def test_subjects_found_in_parallel_are_merged_by_one_request(tmp_path: Path) -> None:
    model = ScriptedModel([described_apart], forever=True)
    built = builder(tmp_path, model, registry="parallel")
    database = built.build()
    assert captions(database) == EXPECTED
    assert all("known so far" not in request.prompt for request in model.requests)
    *_, merge = model.requests
    assert "3: place: 30-40 s" in merge.prompt
    found = [(s.name, s.identity, s.spans) for s in database.registry.subjects]
    # A mention that is claimed twice belongs to the first; one that is left out stays as it is.
    assert found == [
        ("grey room", "a hall", [(0.0, 10.0), (20.0, 30.0), (40.0, 50.0)]),
        ("garden", "", [(10.0, 20.0), (30.0, 40.0)]),
        ("place", "", [(50.0, 60.0)]),
    ]
    assert database.preparation.cost.calls == 7
    again = builder(tmp_path, ScriptedModel([]), registry="parallel").build()
    assert again.registry.subjects == database.registry.subjects
    assert again.preparation == database.preparation


def test_an_unparsed_merge_joins_equal_names_and_is_noted(tmp_path: Path) -> None:
    def no_merge(prompt: str, frames: Any) -> Any:
        return describe(prompt, frames) if frames else "They are all the same."

    database = builder(tmp_path, ScriptedModel([no_merge], forever=True), registry="parallel").build()
    assert [subject.name for subject in database.registry.subjects] == [
        "grey place",
        "red place",
        "blue place",
        "green place",
    ]
    assert database.notes == (
        "the subjects of the database were joined by name only; what failed in their merge: there is no JSON "
        "object in the reply",
    )


def test_the_clips_before_a_failed_request_are_kept_and_merged_later(tmp_path: Path) -> None:
    def fails_at_the_end(prompt: str, frames: Any) -> Any:
        if "50.0 to 60.0 s" in prompt:
            raise BackboneError("the server is gone")
        return describe(prompt, frames)

    model = ScriptedModel([fails_at_the_end], forever=True)
    with pytest.raises(BackboneError):
        builder(tmp_path, model, registry="parallel", max_parallel=1).build()
    later = ScriptedModel([described_apart], forever=True)
    database = builder(tmp_path, later, registry="parallel").build()
    assert captions(database) == EXPECTED
    assert [bool(request.frames) for request in later.requests] == [True, False]


def test_a_clip_that_is_captioned_again_is_merged_again(tmp_path: Path) -> None:
    first = builder(tmp_path, ScriptedModel([described_apart], forever=True), registry="parallel")
    first.build()
    lines = [line for line in first.path().read_bytes().splitlines() if b'"clip": 3,' not in line]
    first.path().write_bytes(b"\n".join(lines) + b"\n")
    model = ScriptedModel([described_apart], forever=True)
    assert captions(builder(tmp_path, model, registry="parallel").build()) == EXPECTED
    assert [bool(request.frames) for request in model.requests] == [True, False]


# ---- transcripts -----------------------------------------------------------------------------------------


def test_transcripts_are_shown_to_the_captioner_and_enrich_captions(tmp_path: Path) -> None:
    model = captioner()
    database = builder(tmp_path, model, subtitles=LINES).build()
    assert "The old king laughs." in model.requests[1].prompt
    assert "Spoken" not in model.requests[0].prompt
    assert database.clips[1].text == f"{EXPECTED[1]} Spoken: The old king laughs."
    # The line of 34 to 37 s belongs to the clip in which it begins.
    assert [clip.spoken for clip in database.clips] == [
        "",
        "The old king laughs.",
        "Anna hid a lamp.",
        "Everybody talks about the wedding.",
        "",
        "",
    ]
    assert database.search.best("the king", 1)[0][0].clip == 1


def test_a_line_over_a_border_belongs_to_one_clip(tmp_path: Path) -> None:
    subtitles = Subtitles((SubtitleLine(18.0, 23.0, "Wait."),), "test")
    database = builder(tmp_path, captioner(), subtitles=subtitles).build()
    assert [clip.spoken for clip in database.clips] == ["", "Wait.", "", "", "", ""]


def test_transcripts_may_guide_the_segmentation() -> None:
    settings = DvdSettings(clip_seconds=10.0, segmentation="transcript")
    subtitles = Subtitles(
        (
            SubtitleLine(4.0, 8.0, "near the first border"),
            SubtitleLine(8.5, 11.0, "nearer"),
            # Exactly half a clip away from two borders: it moves neither.
            SubtitleLine(20.0, 25.0, "between"),
            SubtitleLine(30.0, 34.0, "the only one near the third border"),
        ),
        "test",
    )
    found = clip_borders(43.0, settings, subtitles)
    assert found == [(0.0, 11.0), (11.0, 20.0), (20.0, 34.0), (34.0, 40.0), (40.0, 43.0)]
    uniform = [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0), (30.0, 40.0), (40.0, 43.0)]
    assert clip_borders(43.0, settings, None) == uniform
    assert clip_borders(43.0, DvdSettings(clip_seconds=10.0), subtitles) == uniform


def test_the_paper_has_clips_of_five_seconds_at_two_frames_a_second(tmp_path: Path) -> None:
    model = captioner(frames=64)
    database = builder(tmp_path, model, clip_seconds=5.0, fps=2.0).build()
    assert len(database.clips) == 12
    assert {len(request.frames) for request in model.requests} == {10}


# ---- embeddings ------------------------------------------------------------------------------------------


def test_captions_are_embedded_at_the_first_search_and_found_by_cosine(tmp_path: Path) -> None:
    encoder = ColourWords()
    database = builder(tmp_path, captioner(), text_encoder=encoder).build()
    assert encoder.embedded == []
    found = database.search.best("something blue or red", 3)
    # Clips of one of two colours: cosine 1 / sqrt(2); ties by time.
    assert [clip.clip for clip, _ in found] == [1, 3, 0]
    assert [score for _, score in found] == pytest.approx([0.7071, 0.7071, 0.0], abs=1e-4)
    assert database.search.best("green", 1)[0][0].clip == 5
    assert encoder.embedded == EXPECTED


def test_clips_without_any_text_are_not_found(tmp_path: Path) -> None:
    lines: list[Any] = ["no", "no", *[describe] * 5]
    encoder = ColourWords()
    database = builder(tmp_path, ScriptedModel(lines), text_encoder=encoder).build()
    assert [clip.clip for clip, _ in database.search.best("grey", 2)] == [2, 4]
    assert encoder.embedded == EXPECTED[1:]


def test_a_database_without_any_caption_finds_nothing(tmp_path: Path) -> None:
    model = ScriptedModel(["no"], forever=True)
    database = builder(tmp_path, model, text_encoder=ColourWords()).build()
    assert database.search.best("grey", 2) == []
    assert database.notes == ("6 of 6 clips of the database have no caption: unparsed",)
