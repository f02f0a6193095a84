"""Indexing many videos: decoding ahead, several processes on the same files, shards, precisions."""

import fcntl
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cancelling import until
from tests.support.making_videos import make
from tests.support.number_encoder import NumberEncoder
from tests.support.scenes import SceneBackbone
from tests.support.tiny_encoders import languagebind_folder
from videopro.backbones import MODELS
from videopro.benchmarks import Protocol
from videopro.commands import index as command
from videopro.commands.index import IndexConfig, index_videos
from videopro.engine import queue as walk
from videopro.errors import WorkerBug
from videopro.methods import Questions, RunRequest, create
from videopro.modules import ModuleModels, ModuleSettings
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders import VideoTextEncoder, interfaces
from videopro.modules.search import index_path
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
        until(second.exists)
        assert not first.exists()
        # As if the other process had been killed.
        fcntl.flock(held, fcntl.LOCK_UN)
        done.join(60)
    assert first.exists()


class Failing(NumberEncoder):
    """Fails about videos whose clips are as many as it is given; `fails` None: embeds all as what is not
    finite."""

    fails: set[int] | None = {1}

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        if self.fails and len(clips) in self.fails:
            raise ValueError("absolute aspect ratio must be smaller than 200")
        return super().encode_clips(clips) * (np.nan if self.fails is None else 1)


def test_an_exception_about_one_video_leaves_the_others_and_one_of_all_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "videos" / f"{clips}.mp4" for clips in (1, 2, 3, 4)]
    paths[0].parent.mkdir()
    for clips, each in enumerate(paths, start=1):
        make(each, list(range(20 * clips)), rate=2)
    config = IndexConfig(videos=(), root=tmp_path)
    assert len(index_videos(paths, Failing(), config)) == 1
    error = capsys.readouterr().err
    assert f"error: {paths[0]}: ValueError: absolute aspect ratio" in error
    assert error.count("Traceback (most recent call last)") == 1
    assert all(index_path(Video.open(each), NumberEncoder(), root=tmp_path).exists() for each in paths[1:])
    broken = Failing(version=2)
    broken.fails = {1, 2, 3, 4}
    with pytest.raises(WorkerBug, match="The same exception at tests/modules/search"):
        index_videos(paths, broken, config)
    broken.fails = None
    with pytest.raises(ModelError, match="is not finite"):
        index_videos(paths, broken, config)


def test_shards_of_a_folder(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, model = tmp_path / "videos", languagebind_folder(tmp_path / "model")
    two_videos(path, folder)
    given = [str(folder), "--encoder", f"languagebind:{model}", "--root", str(tmp_path)]
    names = []
    for part in ("1/3", "2/3", "3/3"):
        assert command.main([*given, "--shard", part]) == 0
        names.append([Path(line.split(": ")[0]).name for line in capsys.readouterr().out.splitlines()])
    assert names == [["a.mp4"], ["b.mp4"], []]
    # One that is empty is named each time; the flag leaves the status to the others.
    (folder / "c.mp4").touch()
    for flags, status in (([], 2), (["--skip-unreadable"], 0), (["--skip-unreadable", "--shard", "3/3"], 2)):
        assert command.main([*given, *flags]) == status
        assert f"error: {folder / 'c.mp4'}" in capsys.readouterr().err


@pytest.mark.parametrize("is_gpu", [False, True], ids=["cpu", "gpu"])
def test_the_machine_decides_unless_a_run_began_in_another_precision(
    is_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "_has_gpu", lambda: is_gpu)
    here = "bfloat16" if is_gpu else "float32"
    # Without an encoder all machines have one key.
    for encoder, dtype in (("auto", here), ("none", "float32")):
        models = ModuleModels(ModuleSettings(encoder=encoder), answering=MODELS["pocket"])
        assert models.identity()["encoder_dtype"] == dtype
    teacher = {"planner": "pocket-teacher"}

    def settled(recorded: dict[str, Any], **options: Any) -> tuple[str, str]:
        """The precision that workers get, and the one in the key."""
        questions = Questions(Protocol("robust"))
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
    video = tmp_path / "a.mp4"
    make(video, 40, rate=2)
    spec, root = f"languagebind:{languagebind_folder(tmp_path / 'model')}", tmp_path / "index"
    indexing = [str(video), "--encoder", spec, "--root", str(root)]
    embedded: list[int] = []
    embed = VideoTextEncoder.encode_clips

    def noting(self: VideoTextEncoder, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        embedded.append(len(clips))
        return embed(self, clips)

    def index(**settings: Any) -> np.ndarray:
        """As a run has it: it reads what the command wrote, without a word, or makes its own."""
        models = ModuleModels(ModuleSettings(**ONLY_ENCODER, encoder=spec, **settings), root=tmp_path)
        context = models.context(Video.open(video), SceneBackbone(), None)
        assert context.notes == ()
        return context.index.vectors

    # The command says how runs find what it wrote, if they look for another precision.
    assert command.main(indexing) == 0
    assert "encoder_dtype" not in capsys.readouterr().err
    assert command.main([*indexing, "--dtype", "bfloat16"]) == 0
    assert "videopro infer --options encoder_dtype=bfloat16" in capsys.readouterr().err
    monkeypatch.setattr(interfaces, "_has_gpu", lambda: True)
    assert command.main([*indexing, "--dtype", "float32"]) == 0
    assert "runs need encoder_dtype=float32 to read indexes in float32" in capsys.readouterr().err
    monkeypatch.setattr(VideoTextEncoder, "encode_clips", noting)
    full, half = index(encoder_dtype="float32"), index()
    assert (embedded, len(list(root.rglob("*.safetensors")))) == ([], 2)
    # The rows have length 1, and bfloat16 eight significant bits.
    assert not np.array_equal(full, half)
    assert (full * half).sum(1).min() > 0.999
    index(encoder_dtype="float16")
    assert (embedded, len(list(root.rglob("*.safetensors")))) == ([2], 3)
    assert capsys.readouterr().err == ""


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


def test_pocket_videos_have_an_encoder_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["pocket:test/short_000", "--root", str(tmp_path)]) == 0
    assert "short_000.mp4" in capsys.readouterr().out
