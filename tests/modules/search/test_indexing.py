"""Indexing many videos: decoding ahead, several processes on the same files, shards, precisions."""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.making_videos import make
from tests.support.number_encoder import NumberEncoder
from tests.support.reason_world import SceneBackbone
from tests.support.tiny_encoders import languagebind_folder
from videopro.backbones import MODELS
from videopro.benchmarks import Protocol
from videopro.commands import index as command
from videopro.commands.index import IndexConfig, index_videos
from videopro.engine import queue as walk
from videopro.errors import ConfigError, WorkerBug
from videopro.methods import Questions, RunRequest, create
from videopro.modules import ModuleModels, ModuleSettings
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders import VideoTextEncoder, interfaces
from videopro.modules.search import build_index, index_path
from videopro.video import Frame, Video

ONLY_ENCODER: dict[str, Any] = dict.fromkeys(("text_encoder", "ocr", "detector", "tracker"), "none")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 s: 40 clips, of three frames for a NumberEncoder."""
    path = tmp_path_factory.mktemp("videos") / "a.mp4"
    make(path, list(range(0, 800, 2)), rate=2, options={"g": "20", "preset": "ultrafast"})
    return path


def two_videos(path: Path, folder: Path) -> list[Path]:
    folder.mkdir()
    shutil.copy(path, folder / "a.mp4")
    make(folder / "b.mp4", list(range(60)), rate=2)
    return [folder / "a.mp4", folder / "b.mp4"]


def test_clips_are_decoded_while_the_encoder_works(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    went_on = threading.Event()
    stream = Video.stream

    def noting(self: Video, *args: Any, **keywords: Any) -> Iterator[Frame]:
        for number, frame in enumerate(stream(self, *args, **keywords)):
            if number > 16 * NumberEncoder.clip_frames:
                went_on.set()
            yield frame

    class Waiting(NumberEncoder):
        def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
            # Before the first batch is embedded, the second is decoded.
            assert went_on.wait(60)
            return super().encode_clips(clips)

    monkeypatch.setattr(Video, "stream", noting)
    encoder = Waiting()
    made = build_index(Video.open(path), encoder, root=tmp_path)
    assert len(made.clips) == 40
    middles = [row[1] for row in encoder.seen]
    assert middles == sorted(middles)


def test_what_another_process_is_at_is_left_for_later(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "POLL_SECONDS", 0.05)
    paths, encoder = two_videos(path, tmp_path / "videos"), NumberEncoder()
    first, second = (index_path(Video.open(each), encoder, root=tmp_path) for each in paths)
    first.parent.mkdir()
    with first.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        config = IndexConfig(videos=(), root=tmp_path)
        done = threading.Thread(target=index_videos, args=(paths, encoder, config))
        done.start()
        deadline = time.monotonic() + 60
        while not second.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not first.exists()
        # As if the other process had been killed.
        fcntl.flock(held, fcntl.LOCK_UN)
        done.join(60)
    assert first.exists()


def test_an_error_of_all_videos_ends_the_command(path: Path, tmp_path: Path) -> None:
    class Broken(NumberEncoder):
        def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
            return super().encode_clips(clips) * np.nan

    paths = two_videos(path, tmp_path / "videos")
    with pytest.raises(ModelError, match="is not finite"):
        index_videos(paths, Broken(), IndexConfig(videos=(), root=tmp_path))


def test_an_exception_about_one_video_leaves_the_others(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(NumberEncoder):
        """Fails about videos whose clips are as many as it is given."""

        fails = {1}

        def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
            if len(clips) in self.fails:
                raise ValueError("absolute aspect ratio must be smaller than 200")
            return super().encode_clips(clips)

    folder = tmp_path / "videos"
    folder.mkdir()
    for clips in (1, 2, 3, 4):
        make(folder / f"{clips}.mp4", list(range(20 * clips)), rate=2)
    config, paths = IndexConfig(videos=(), root=tmp_path), sorted(folder.iterdir())
    assert index_videos(paths, Failing(), config) == 1
    error = capsys.readouterr().err
    assert f"error: {paths[0]}: cannot be indexed: ValueError: absolute aspect ratio" in error
    assert error.count("Traceback (most recent call last)") == 1
    assert all(index_path(Video.open(each), NumberEncoder(), root=tmp_path).exists() for each in paths[1:])
    broken = Failing(version=2)
    broken.fails = {1, 2, 3, 4}
    with pytest.raises(WorkerBug, match="The same exception at tests/modules/search"):
        index_videos(paths, broken, config)


def test_a_file_that_is_named_twice_is_embedded_once(path: Path, tmp_path: Path) -> None:
    paths, encoder = two_videos(path, tmp_path / "videos"), NumberEncoder()
    same = tmp_path / "videos" / "same.mp4"
    shutil.copy(path, same)
    assert index_videos([*paths, same], encoder, IndexConfig(videos=(), root=tmp_path)) == 0
    assert len(encoder.seen) == 40 + 3


def test_shards_of_a_folder(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, model = tmp_path / "videos", languagebind_folder(tmp_path / "model")
    two_videos(path, folder)
    given = [str(folder), "--encoder", f"languagebind:{model}", "--root", str(tmp_path)]
    names = []
    for part in ("1/3", "2/3", "3/3"):
        assert command.main([*given, "--shard", part]) == 0
        names.append(
            [Path(line.split(": ")[0]).name for line in capsys.readouterr().out.splitlines() if line]
        )
    assert names == [["a.mp4"], ["b.mp4"], []]
    assert command.main([*given, "--shard", "4/3"]) == 2
    assert "shard is '4/3'; write i/n" in capsys.readouterr().err
    # One that is empty is named each time; the flag leaves the status to the others.
    (folder / "c.mp4").touch()
    for flags, status in (([], 2), (["--skip-unreadable"], 0), (["--skip-unreadable", "--shard", "3/3"], 2)):
        assert command.main([*given, *flags]) == status
        assert f"error: {folder / 'c.mp4'}" in capsys.readouterr().err


def test_a_run_reads_what_index_wrote_in_another_precision(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, root = f"languagebind:{languagebind_folder(tmp_path / 'model')}", tmp_path / "index"
    given = ["--encoder", spec, "--root", str(root)]
    assert command.main([str(path), *given, "--dtype", "bfloat16"]) == 0
    assert "videopro infer --options encoder_dtype=bfloat16" in capsys.readouterr().err
    (made,) = root.rglob("*.safetensors")

    embedded: list[int] = []
    embed = VideoTextEncoder.encode_clips

    def noting(self: VideoTextEncoder, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        embedded.append(len(clips))
        return embed(self, clips)

    monkeypatch.setattr(VideoTextEncoder, "encode_clips", noting)
    settings = {**ONLY_ENCODER, "encoder": spec}
    video = Video.open(path)

    same = ModuleModels(ModuleSettings(**settings, encoder_dtype="bfloat16"), root=tmp_path)
    assert same.context(video, SceneBackbone(), None).notes == ()
    assert not embedded
    other = ModuleModels(ModuleSettings(**settings), root=tmp_path)
    other.context(video, SceneBackbone(), None)
    assert sum(embedded) == 40
    assert len(list(root.rglob("*.safetensors"))) == 2
    assert made.exists()
    # Read from now on, without a word.
    again = ModuleModels(ModuleSettings(**settings), root=tmp_path)
    assert again.context(video, SceneBackbone(), None).notes == ()
    assert capsys.readouterr().err == ""


def test_the_precision_is_part_of_the_key() -> None:
    plain = ModuleModels(ModuleSettings(**ONLY_ENCODER), answering=MODELS["pocket"]).identity()
    half = ModuleModels(
        ModuleSettings(**ONLY_ENCODER, encoder_dtype="bfloat16"), answering=MODELS["pocket"]
    ).identity()
    assert half == {**plain, "encoder_dtype": "bfloat16"}
    planner = {"planner": "pocket-teacher"}
    run = create("videopro", planner).identity()
    assert create("videopro", {**planner, "encoder_dtype": "bfloat16"}).identity() == {
        **run,
        "encoder_dtype": "bfloat16",
    }
    with pytest.raises(
        ConfigError, match=r"encoder_dtype is 'bf16'; it must be auto, float32, bfloat16 or float16"
    ):
        ModuleSettings(encoder_dtype="bf16")


@pytest.mark.parametrize("is_gpu", [False, True], ids=["cpu", "gpu"])
def test_the_machine_decides_unless_a_run_began_in_another_precision(
    is_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "_has_gpu", lambda: is_gpu)
    here = "bfloat16" if is_gpu else "float32"
    assert ModuleModels(ModuleSettings(), answering=MODELS["pocket"]).identity()["encoder_dtype"] == here
    # Without an encoder all machines have one key.
    assert (
        ModuleModels(ModuleSettings(encoder="none"), answering=MODELS["pocket"]).identity()["encoder_dtype"]
        == "float32"
    )
    questions = Questions(Protocol("robust"))

    teacher = {"planner": "pocket-teacher"}

    def settled(recorded: dict[str, Any], **options: Any) -> tuple[str, str]:
        """The precision that workers get, and the one in the key."""
        request = RunRequest("videopro", {**teacher, **options}, "pocket", {}, lambda: questions, recorded)
        made = create("videopro", request.options).adapt(request)
        return made.options["encoder_dtype"], made.method.identity()["encoder_dtype"]

    assert settled({}) == settled({}, encoder_dtype="auto") == (here, here)
    began = create("videopro", {**teacher, "encoder_dtype": "float16"}).identity()
    assert settled(began) == settled(began, encoder_dtype="auto") == ("float16", "float16")
    assert settled(began, encoder_dtype="bfloat16") == ("bfloat16", "bfloat16")


def test_each_precision_has_an_index_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a.mp4", 40, rate=2)
    spec, root = f"languagebind:{languagebind_folder(tmp_path / 'model')}", tmp_path / "index"
    indexing = [str(tmp_path / "a.mp4"), "--encoder", spec, "--root", str(root)]
    assert command.main(indexing) == 0
    assert "encoder_dtype" not in capsys.readouterr().err
    video = Video.open(tmp_path / "a.mp4")
    monkeypatch.setattr(interfaces, "_has_gpu", lambda: True)

    def index(**settings: Any) -> np.ndarray:
        chosen = ModuleSettings(**ONLY_ENCODER, encoder=spec, **settings)
        context = ModuleModels(chosen, root=tmp_path).context(video, SceneBackbone(), None)
        assert context.index is not None
        return context.index.vectors

    stored = index(encoder_dtype="float32")
    assert len(list(root.rglob("*.safetensors"))) == 1, "the command's is read"
    made = index()
    assert len(list(root.rglob("*.safetensors"))) == 2
    # The rows have length 1, and bfloat16 eight significant bits.
    assert not np.array_equal(made, stored)
    assert (made * stored).sum(1).min() > 0.999
    # Runs on this machine look for bfloat16: the command says how they find what it wrote.
    assert command.main([*indexing, "--dtype", "float32"]) == 0
    assert "runs read indexes in float32 with encoder_dtype=float32 only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "devices", "has_gpu"), [("null", 1, True), ("null", 0, False), ("no-such-file*", 1, False)]
)
def test_a_gpu_is_one_that_pytorch_counts_and_is_not_looked_for_without_a_driver(
    files: str, devices: int, has_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "_DEVICE_FILES", (files,))
    monkeypatch.setattr("torch.cuda.device_count", lambda: devices)
    assert interfaces.resolve_dtype("auto") == ("bfloat16" if has_gpu else "float32")
    assert interfaces.resolve_dtype("auto", "cuda:1") == "bfloat16"
    assert interfaces.resolve_dtype("auto", "cpu") == "float32"


def test_a_second_video_is_begun_only_at_the_end_of_the_first(path: Path, tmp_path: Path) -> None:
    """So that another process can take it."""
    first, second = two_videos(path, tmp_path / "videos")
    begun: list[bool] = []

    class Looking(NumberEncoder):
        def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
            if not begun:
                # The first 16 of 40 clips; a moment for the other thread.
                time.sleep(0.3)
                begun.append(index_path(Video.open(second), self, root=tmp_path).parent.exists())
            return super().encode_clips(clips)

    assert index_videos([first, second], Looking(), IndexConfig(videos=(), root=tmp_path)) == 0
    assert begun == [False]


def test_ones_own_videos_need_a_named_encoder(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(path), "--root", str(tmp_path)]) == 2
    assert f"{path}: name an encoder, such as --encoder languagebind" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert command.main(["pocket:test/short_000", "--root", str(tmp_path)]) == 0
    assert "short_000.mp4" in capsys.readouterr().out
