"""The database: captions, subjects, embeddings; resumed, shared, damaged."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import LINES, ColourWords, ScriptedModel, builder, captioner, describe
from videopro.backbones.server import RequestRefused
from videopro.errors import BackboneError
from videopro.methods.dvd.database import Database, clip_borders, is_too_long
from videopro.methods.dvd.database_file import Subject, SubjectRegistry, SubjectReply
from videopro.methods.dvd.settings import DvdSettings
from videopro.video import SubtitleLine, Subtitles

SCENES = ("grey", "red", "grey", "blue", "grey", "green")


def captions(database: Database) -> list[str]:
    return [clip.caption for clip in database.clips]


EXPECTED = [f"A {colour} place, and nothing else." for colour in SCENES]


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
    # The cost is that of all clips, whichever run made them.
    made = database.preparation
    assert (made.kind, made.is_known) == ("database", True)
    assert (made.cost.calls, made.cost.frames, made.cost.tokens_in) == (6, 60, 600)
    assert made.cost.seconds > 0
    again = captioner()
    assert builder(tmp_path, again).build().preparation == made
    assert again.requests == []


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
    # One that is half written goes unmentioned: it was being written when its process died.
    first.path().write_bytes(b"\n".join([*lines[:2], damage, *lines[3:5], lines[5][:-20]]))
    model = captioner()
    database = builder(tmp_path, model).build()
    assert captions(database) == EXPECTED
    # With the registry of the clips before.
    again = [time in each.prompt for time, each in zip(("20.0 to", "50.0 to"), model.requests, strict=True)]
    assert again == [True, True]
    assert ["blue place" in request.prompt for request in model.requests] == [False, True]
    assert "1 damaged lines; captioning " in capsys.readouterr().err
    assert database.preparation.cost.calls == 6
    # Once it is repaired, it is not mentioned again.
    builder(tmp_path, captioner()).build()
    assert capsys.readouterr().err == ""


def test_one_builds_and_the_other_waits(tmp_path: Path) -> None:
    """Locks belong to open files, so threads stand for processes here."""
    model = captioner()
    with ThreadPoolExecutor(2) as threads:
        built = list(threads.map(lambda _: builder(tmp_path, model).build(), range(2)))
    assert [captions(database) for database in built] == [EXPECTED] * 2
    assert built[0].preparation == built[1].preparation
    assert len(model.requests) == 6


def test_a_caption_that_cannot_be_parsed_is_empty_and_counted(tmp_path: Path) -> None:
    """The first is repaired, the second is not."""
    lines: list[Any] = ["a place", describe, "a red place", "still a red place", *[describe] * 4]
    encoder = ColourWords()
    database = builder(tmp_path, ScriptedModel(lines), text_encoder=encoder).build()
    assert captions(database) == [EXPECTED[0], "", *EXPECTED[2:]]
    assert database.clips[1].fault == "there is no JSON object in the reply"
    assert database.notes == ("1 of 6 clips in the database have no caption: unparsed",)
    assert database.preparation.cost.calls == 8
    assert [clip.clip for clip, _ in database.search.best("red place", 9)] == [0, 2, 3, 4, 5]
    assert encoder.embedded == [EXPECTED[0], *EXPECTED[2:]]
    # It is not asked for again.
    assert builder(tmp_path, ScriptedModel([])).build().notes == database.notes


def test_a_database_without_any_caption_finds_nothing(tmp_path: Path) -> None:
    model = ScriptedModel(["no"], forever=True)
    database = builder(tmp_path, model, text_encoder=ColourWords()).build()
    assert database.search.best("grey", 2) == []


def test_a_captioner_of_plain_sentences_needs_no_json(tmp_path: Path) -> None:
    model = ScriptedModel(["A place\n of one colour."], forever=True)
    database = builder(tmp_path, model, registry="none").build()
    assert captions(database) == ["A place of one colour."] * 6
    assert database.registry.subjects == []
    assert model.requests[0].prompt.endswith("Reply in one sentence.")
    assert "{" not in model.requests[0].prompt


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


LONG = RequestRefused("server http://x/v1 refused the request (status 400): maximum context length is 8", 400)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("They are all the same.", "there is no JSON object in the reply"),
        # The captions are paid and good: the questions are answered, and each notes what happened.
        (LONG, f"its request exceeds the captioner's context ({LONG})"),
    ],
    ids=["unparsed", "too long"],
)
def test_a_merge_that_fails_joins_equal_names_and_is_noted(tmp_path: Path, reply: Any, why: str) -> None:
    model = ScriptedModel([merging(reply)], forever=True)
    database = builder(tmp_path, model, registry="parallel").build()
    names = [subject.name for subject in database.registry.subjects]
    assert names == ["grey place", "red place", "blue place", "green place"]
    assert database.notes == (
        f"the subjects in the database were merged by name only; the merge request failed: {why}",
    )
    # It is not asked for again.
    assert builder(tmp_path, ScriptedModel([]), registry="parallel").build().notes == database.notes


def merging(reply: Any) -> Any:
    """Describes clips, and replies this to a merge."""

    def line(prompt: str, frames: Any) -> Any:
        if not frames and isinstance(reply, Exception):
            raise reply
        return describe(prompt, frames) if frames else reply

    return line


def test_transcripts_are_shown_to_the_captioner_and_enrich_captions(tmp_path: Path) -> None:
    model = captioner()
    database = builder(tmp_path, model, subtitles=LINES).build()
    assert "The old king laughs." in model.requests[1].prompt
    assert "Spoken" not in model.requests[0].prompt
    assert database.clips[1].text == f"{EXPECTED[1]} Spoken: The old king laughs."
    # The line of 34 to 37 s belongs to the clip in which it begins.
    *_, lamp, wedding = (line.text for line in LINES.lines)
    assert [clip.spoken for clip in database.clips] == ["", "The old king laughs.", lamp, wedding, "", ""]
    assert database.search.best("the king", 1)[0][0].clip == 1


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


def seen(name: str, start: float, *, actions: tuple[str, ...] = (), **facts: str) -> Subject:
    return Subject.seen(SubjectReply(name=name, actions=list(actions), **facts), start, start + 5)


def test_a_known_subject_gains_facts_and_spans() -> None:
    registry = SubjectRegistry()
    registry.add(seen("Anna", 0, appearance="green coat", actions=("runs",)))
    registry.add(seen("the dog", 5))
    registry.add(seen(" anna ", 5, appearance="a coat", identity="the baker", actions=("runs", "sings")))
    registry.add(seen("ANNA", 20))
    anna, dog = registry.subjects
    assert anna == Subject(
        name="Anna",
        appearance="green coat",
        identity="the baker",
        actions=["runs", "sings"],
        spans=[(0, 10), (20, 25)],
    )
    assert dog.spans == [(5, 10)]
    assert registry.describe() == (
        "Anna: green coat. the baker. runs; sings. 0-10 s, 20-25 s\nthe dog: 5-10 s"
    )


def test_other_settings_captioners_and_subtitles_have_their_own_file(tmp_path: Path) -> None:
    class Other(ScriptedModel):
        def identity(self) -> dict[str, object]:
            return {"kind": "other"}

    moved = Subtitles((SubtitleLine(13.0, 15.0, "The old king laughs."), *LINES.lines[1:]), "test")
    builders = [
        builder(tmp_path, captioner()),
        builder(tmp_path, captioner(), clip_seconds=5.0),
        builder(tmp_path, Other([])),
        builder(tmp_path, captioner(frames=8)),
        builder(tmp_path, captioner(), subtitles=LINES),
        builder(tmp_path, captioner(), subtitles=moved),
    ]
    assert len({each.path() for each in builders}) == len(builders)
    # These change no caption.
    assert (
        builder(tmp_path, captioner(), max_tool_steps=2, text_encoder=ColourWords()).path()
        == builders[0].path()
    )
    # Nor does a seed, unless captions are sampled.
    for temperature, count in ((0.0, 1), (0.5, 3)):
        made = builder(tmp_path, captioner(), temperature=temperature)
        assert len({replace(made, seed=seed).path() for seed in (0, 1, 2)}) == count


def test_a_registry_that_is_too_long_says_what_to_change(tmp_path: Path) -> None:
    """Two of six clips are captioned; the third is shown two subjects, which are one too many."""

    def reply(prompt: str, frames: Any) -> Any:
        if "red place" in prompt:
            raise LONG
        return describe(prompt, frames)

    tight = ScriptedModel([reply], forever=True)
    first = builder(tmp_path, tight)
    with pytest.raises(BackboneError) as raised:
        first.build()
    message = str(raised.value)
    assert message.startswith("clip 2: server http://x/v1 refused the request (status 400): maximum context")
    assert "the registry so far (2 subjects, " in message
    for way_out in ("registry=parallel", "clip_seconds", "a captioner with a longer context"):
        assert way_out in message
    assert len(first.path().read_text().splitlines()) == 2
    # The way out is one.
    database = builder(tmp_path, tight, registry="parallel").build()
    assert len(database.clips) == 6
    assert database.notes[0].startswith("the subjects in the database were merged by name only; ")


def test_a_merge_that_fails_otherwise_is_made_later(tmp_path: Path) -> None:
    gone = ScriptedModel([merging(BackboneError("the server is gone"))], forever=True)
    with pytest.raises(BackboneError, match="is gone"):
        builder(tmp_path, gone, registry="parallel").build()
    later = ScriptedModel([{"subjects": []}])
    assert builder(tmp_path, later, registry="parallel").build().notes == ()
    assert len(later.requests) == 1


def test_clips_in_flight_are_kept_when_another_fails(tmp_path: Path) -> None:
    """They are paid: the first two are in flight together, and one fails before the other is done."""
    together = threading.Barrier(2)

    def fails_first(prompt: str, frames: Any) -> Any:
        number = next(n for n in range(6) if f"from {10 * n}.0 to" in prompt)
        if number < 2:
            together.wait(10)
        if number == 0:
            raise BackboneError("the filter refuses this clip")
        time.sleep(0.2)
        return describe(prompt, frames)

    built = builder(tmp_path, ScriptedModel([fails_first], forever=True), registry="parallel", max_parallel=2)
    with pytest.raises(BackboneError, match="the filter refuses this clip"):
        built.build()
    kept = {json.loads(line)["clip"] for line in built.path().read_text().splitlines()}
    # The third may have been begun in the moment of the failure, the last cannot.
    assert 1 in kept
    assert not kept & {0, 5}


@pytest.mark.parametrize(
    ("message", "status", "expected"),
    [
        ("This model's maximum context length is 32768 tokens. However, you requested 40000", 400, True),
        ("Input validation error: `inputs` must have less than 1024 tokens", 422, True),
        ("Request Entity Too Large", 413, True),
        ("backbone 'qwen' ran out of memory on cuda:0", None, True),
        ("Rate limit exceeded", 429, False),
        ("the prompt triggered the content management policy", 400, False),
    ],
)
def test_what_counts_as_too_long(message: str, status: int | None, expected: bool) -> None:
    error = BackboneError(message) if status is None else RequestRefused(message, status)
    assert is_too_long(error) is expected
