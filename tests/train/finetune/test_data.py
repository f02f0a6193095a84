"""Reading rows, and the frames of their videos on disk."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import sft_world as world
from tests.support.making_videos import make, read_number
from tests.support.qwen_models import checkpoint, reference
from tests.support.training_reference import conversation
from tests.support.training_runs import LORA, flags
from videopro.errors import DatasetError, VideoError
from videopro.train import sft
from videopro.train.finetune import VideoSFTConfig, read_rows
from videopro.train.runtime import FrameCache, read_reference, read_settings


def test_rows_that_cannot_be_learned_are_named_before_anything_is_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five of nine, one of which has a system turn that the chat template refuses."""
    replies = ["A", "A<|im_end|>", "B", "B<end_of_turn>", "[INST] C", "C", "C", "<image>", "D"]
    rows = [world.record("What?", reply, str(world.folder() / "videos" / "a.mp4")) for reply in replies]
    rows[2]["system"] = "Be brief."
    path = world.write(tmp_path / "rows.jsonl", rows)
    model = tmp_path / "model"
    shutil.copytree(checkpoint("qwen3_vl"), model)
    template = (model / "chat_template.jinja").read_text()
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system turns') }}{% endif %}"
    (model / "chat_template.jinja").write_text(refuses + template)
    words = {"model_name_or_path": model, "train_data": path, "frame_cache": tmp_path / "frames"}
    assert sft.main(flags(tmp_path / "run", **LORA, **words, max_steps=1)) == 2
    said = capsys.readouterr().err
    assert f"  {path}, line 2: the reply contains '<|im_end|>'" in said
    assert f"  {path}, line 3: the model's chat template rejects it (no system turns)" in said
    assert said.count(f"{path}, line") == 5
    assert not (tmp_path / "frames").exists()
    assert not (tmp_path / "run").exists()


def test_rows_can_be_grouped_by_their_lengths(tmp_path: Path) -> None:
    """The row without a video is the shortest, by as many tokens as the processor makes of it."""
    words = {**LORA, "train_data": world.folder() / "sft.jsonl", "max_steps": 1}
    settings = flags(tmp_path / "run", **words, train_sampling_strategy="group_by_length")
    trainer = sft.train(*read_settings(VideoSFTConfig, "sft", settings))
    dataset: Any = trainer.train_dataset
    lengths = list(dataset["length"])
    _, processor = reference("qwen3_vl")
    exact = [conversation("qwen3_vl", processor, row)["input_ids"].shape[1] for row in world.rows()]
    assert lengths[3] == exact[3] == min(lengths)
    # Those of a video are estimated: the order counts.
    assert sorted(range(4), key=lengths.__getitem__) == sorted(range(4), key=exact.__getitem__)


def test_rows_in_the_releases_format(tmp_path: Path) -> None:
    # As ms-swift reads them: no ids, absolute or relative paths, nothing but messages and videos.
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Watch <video> and say: which one?"},
        {"role": "assistant", "content": "<code>z</code>"},
    ]
    rows = [
        world.record("\nWhich one?", "<planning>x</planning>", "/data/CG-Bench/1.mp4"),
        world.record("Which one?", "<code>y</code>", "LongVideoBench/2.mp4"),
        {"messages": chat, "videos": ["3.mp4"]},
        {"system": "", "query": "Which one?<video>", "response": "<code>q</code>", "videos": "4.mp4"},
        # Without <video>, ms-swift puts it first.
        {"query": "Which one?", "response": "<code>r</code>", "videos": ["5.mp4"], "history": []},
        {"messages": [chat[0], {"role": "user", "content": "Hello"}, chat[2]]},
        # A system beside the messages counts if they have none.
        {"system": "Be kind.", "messages": chat[1:], "videos": ["6.mp4"]},
        {"system": "Be kind.", "messages": chat, "videos": ["7.mp4"]},
    ]
    found = read_rows(world.write(tmp_path / "train_sft.jsonl", rows))
    assert found.left_out == {}
    assert found.summary() == f"{tmp_path / 'train_sft.jsonl'}: 8 rows"
    first, second, third, fourth, fifth, text, beside, both = found.rows
    assert (first.id, first.prompt, first.video) == ("line 1", "\nWhich one?", Path("/data/CG-Bench/1.mp4"))
    assert (first.system, first.before) == (None, "")
    assert second.video == tmp_path / "LongVideoBench" / "2.mp4"
    assert second.reply == "<code>y</code>"
    assert (third.system, third.before, third.prompt) == ("Be brief.", "Watch ", " and say: which one?")
    assert (fourth.system, fourth.before, fourth.prompt) == ("", "Which one?", "")
    assert (fourth.reply, fourth.video) == ("<code>q</code>", tmp_path / "4.mp4")
    assert (fifth.system, fifth.before, fifth.prompt) == (None, "", "Which one?")
    assert (text.system, text.prompt, text.video) == ("Be brief.", "Hello", None)
    assert (beside.system, both.system) == ("Be kind.", "Be brief.")


GOOD = world.record("q", "a", "v.mp4")


UNUSABLE: list[tuple[Any, str]] = [
    ("{", "invalid JSON"),
    ([1], "must be an object"),
    ({}, "neither 'messages' nor 'query'"),
    ({**GOOD, "messages": GOOD["messages"][:1]}, "write a reply"),
    ({"query": "q", "response": "r", "history": [["a", "b"]]}, "has a history"),
    ({"query": 3, "response": "r"}, "field 'query' is 3"),
    ({**GOOD, "messages": [*GOOD["messages"], *GOOD["messages"]]}, "not ['user', 'assistant', 'user',"),
    ({**GOOD, "messages": GOOD["messages"][1:]}, "not ['assistant']"),
    ({**GOOD, "messages": [{"role": "user"}, GOOD["messages"][1]]}, "no text in 'content'"),
    (world.record("q", " \n", "v.mp4"), "write a reply"),
    ({**GOOD, "videos": []}, "1 <video> but 0 videos"),
    (world.record("q <video>", "a", "v.mp4"), "2 <video> but 1 videos"),
    (world.record("q", "a <video>", "v.mp4"), "outside the user's turn"),
    ({"system": "<video>", "query": "q", "response": "r", "videos": ["v"]}, "outside the user's turn"),
    ({**GOOD, "videos": ["v.mp4", "w.mp4"]}, "2 videos in one row"),
    ({**GOOD, "videos": [3]}, "list of paths"),
    ({**GOOD, "images": ["a.png"]}, "only videos"),
    ({"query": "<image>q", "response": "r", "images": ["a.png"]}, "only videos"),
    ({"messages": []}, "must be a list of turns"),
]


def test_rows_that_cannot_be_trained_on_are_left_out_and_named(tmp_path: Path) -> None:
    lines = [row if isinstance(row, str) else json.dumps(row) for row, _ in UNUSABLE]
    (tmp_path / "rows.jsonl").write_text("\n".join([json.dumps(GOOD), "", *lines]), encoding="utf-8")
    found = read_rows(tmp_path / "rows.jsonl")
    assert len(found.rows) == 1
    assert list(found.left_out) == [*range(3, 3 + len(UNUSABLE))]
    for reason, (row, said) in zip(found.left_out.values(), UNUSABLE, strict=True):
        assert said in reason, row


def test_one_row_must_be_left(tmp_path: Path) -> None:
    bad, path = {**GOOD, "videos": []}, tmp_path / "rows.jsonl"
    summary = read_rows(world.write(path, [GOOD, *[bad] * 7])).summary()
    assert "rows, 7 skipped:\n  line 2, line 3, line 4, line 5, line 6 and 2 more: " in summary
    with pytest.raises(DatasetError, match=r"rows.jsonl: all 1 rows are unusable:\n  line 1: "):
        read_rows(world.write(path, [bad]))
    with pytest.raises(DatasetError, match="has no rows"):
        read_rows(world.write(path, []))


def cache(root: Path, count: int = 4, form: str = "f") -> FrameCache:
    return FrameCache(root, count=count, resize=lambda height, width, n: (height, width), form=form)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    make(tmp_path / "v.mp4", 40, rate=10)
    return tmp_path / "v.mp4"


def test_frames_are_the_midpoints_of_equal_parts_or_all_there_are(tmp_path: Path, video: Path) -> None:
    make(tmp_path / "slides.mkv", [0, 20, 50], rate=1)
    for count, path, pictures, times in (
        # 40 pictures in 4 s: midpoints 0.5, 1.5, 2.5, 3.5 s show pictures 5, 15, 25, 35.
        (4, video, [5, 15, 25, 35], [0.5, 1.5, 2.5, 3.5]),
        (64, tmp_path / "slides.mkv", [0, 1, 2], [0.0, 20.0, 50.0]),
    ):
        for _ in range(2):  # decoded, then from the cache
            frames = cache(tmp_path / "c", count).frames(path)
            assert [read_number(frame.image) for frame in frames] == pictures
            assert [frame.time for frame in frames] == pytest.approx(times)


def test_a_video_is_decoded_once_for_each_count_form_and_content(tmp_path: Path, video: Path) -> None:
    first, second = cache(tmp_path / "c"), cache(tmp_path / "c")
    made = first.frames(video)
    moved = Path(shutil.move(video, tmp_path / "moved.mp4"))
    assert first.prepare([moved] * 3) == {}
    again = second.frames(moved)
    assert (first.decoded, second.decoded) == (1, 0)
    assert all(np.array_equal(a.image, b.image) for a, b in zip(made, again, strict=True))
    assert [(a.time, a.video) for a in made] == [(b.time, b.video) for b in again]
    assert not again[0].image.flags.writeable
    # A file that is cut off is written anew.
    (file,) = (tmp_path / "c").rglob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    repaired = cache(tmp_path / "c")
    assert repaired.prepare([moved]) == {}
    assert file.read_bytes() == whole
    assert not list((tmp_path / "c").rglob("*.part"))
    make(tmp_path / "other.mp4", 41, rate=10)
    others = cache(tmp_path / "c", count=5), cache(tmp_path / "c", form="g"), cache(tmp_path / "c")
    for frames, of in zip(others, (moved, moved, tmp_path / "other.mp4"), strict=True):
        frames.frames(of)
    assert [frames.decoded for frames in (repaired, *others)] == [1, 1, 1, 1]


def test_unreadable_videos_are_reported_by_path(tmp_path: Path, video: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(video.read_bytes()[:2000])
    none, done = tmp_path / "none.mp4", []
    failed = cache(tmp_path / "c").prepare([video, broken, none], on_done=lambda: done.append(1))
    assert set(failed) == {broken, none}
    assert "no such file" in failed[none]
    assert len(done) == 3
    with pytest.raises(VideoError, match="none"):
        cache(tmp_path / "c").frames(none)


def test_what_rows_say_of_the_modules() -> None:
    shown: dict[str, Any] = {"reference": "signatures", "modules": ["query_native", "extract_frames"]}
    assert read_reference({"messages": []}, "here") == read_reference({"reference": None}, "here")
    assert read_reference({}, "here").reference == "none"
    assert vars(read_reference(shown, "here")) == {**shown, "modules": tuple(shown["modules"])}
    with pytest.raises(DatasetError, match="here: reference is 'compat'"):
        read_reference({**shown, "reference": "compat"}, "here")
    with pytest.raises(DatasetError, match="here: modules is None"):
        read_reference({"reference": "compact"}, "here")
