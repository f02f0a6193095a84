"""The videos of a server: known by their content, kept over a restart, and never outside of the folders."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.colours import make_video
from videopro.backbones import find_video
from videopro.pocket.model import is_pocket_video
from videopro.serve import VideoStore
from videopro.serve.problems import Problem
from videopro.serve.store import StoredVideo

SRT = "1\n00:00:00,500 --> 00:00:01,500\nhello there\n"


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operator's folder, with a link to a video outside of it, and one to a video inside."""
    root = tmp_path_factory.mktemp("root")
    folder = root / "videos"
    make_video(folder / "deep" / "red.mp4", "red")
    make_video(root / "secret" / "blue.mp4", "blue")
    (folder / "out.mp4").symlink_to(root / "secret" / "blue.mp4")
    (folder / "outside").symlink_to(root / "secret")
    (folder / "in.mp4").symlink_to("deep/red.mp4")
    (folder / "circle.mp4").symlink_to("circle.mp4")
    return folder


@pytest.fixture(scope="module")
def red(videos: Path) -> bytes:
    return (videos / "deep" / "red.mp4").read_bytes()


def uploaded(store: VideoStore, content: bytes, name: str = "a video.mp4") -> StoredVideo:
    with store.receive(len(content)) as part:
        part.write_bytes(content)
        return store.add(part, name)


def subtitled(store: VideoStore, id: str, name: str, content: bytes) -> StoredVideo:
    with store.receive(0) as part:
        part.write_bytes(content)
        return store.set_subtitles(id, name, part)


def test_a_video_takes_its_room_once(tmp_path: Path, red: bytes) -> None:
    store = VideoStore(tmp_path, 2 * len(red))
    with store.receive(len(red)) as first:
        first.write_bytes(red)
        store.add(first, "red.mp4")
        with store.receive(len(red)), pytest.raises(Problem, match="larger than"), store.receive(1):
            pass


def test_the_same_content_is_the_same_video_and_a_restart_finds_it(tmp_path: Path, red: bytes) -> None:
    store = VideoStore(tmp_path, 10**9)
    video = uploaded(store, red)
    assert video.id == "file-" + hashlib.sha256(red).hexdigest()[:32]
    assert (video.duration, video.width, video.height, video.bytes) == (2.0, 64, 48, len(red))
    assert uploaded(store, red, "another name.mkv") == video
    assert [path.name for path in store.incoming.iterdir()] == []
    with_lines = subtitled(store, video.id, "hers.srt", SRT.encode())
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    (moved / "incoming" / "part-1").write_bytes(b"of a killed server")
    (moved / "videos" / "holiday").mkdir()
    again = VideoStore(moved, 10**9)
    (kept,) = again.all()
    assert kept.path.read_bytes() == red
    assert kept.subtitles is not None
    assert kept.subtitles.read_text() == SRT
    assert (kept.id, kept.name, kept.created_at) == (with_lines.id, "a video.mp4", video.created_at)
    assert not list(again.incoming.iterdir())
    assert (moved / "videos" / "holiday").is_dir(), "somebody else's"
    again.delete(video.id)
    assert VideoStore(moved, 10**9).all() == []


@pytest.mark.parametrize("about", ['{"id": ', '{"of": "a later version"}'])
def test_a_video_whose_record_cannot_be_read_is_not_lost(
    tmp_path: Path, red: bytes, about: str, caplog: pytest.LogCaptureFixture
) -> None:
    video = uploaded(VideoStore(tmp_path, 10**9), red)
    record = video.path.with_name("about.json")
    record.write_text(about)
    (tmp_path / "videos" / f"file-{'0' * 32}").mkdir()  # An upload that was cut off.
    again = VideoStore(tmp_path, 10**9)
    assert again.all() == []
    assert f"{record}: cannot be read" in caplog.text
    assert [home.name for home in (tmp_path / "videos").iterdir()] == [video.id]
    assert video.path.read_bytes() == red
    assert uploaded(again, red).id == video.id, "sent again, it is there again"


def test_no_path_leads_out_of_the_folders(tmp_path: Path, videos: Path) -> None:
    store = VideoStore(tmp_path, 10**9, [videos])
    for path in (
        *("../secret/blue.mp4", "deep/../../secret/blue.mp4", "/etc/passwd", "out.mp4", "outside/blue.mp4"),
        *("circle.mp4", "deep", "", ".", "no.mp4", "deep/red.mp4\0", "x" * 5000, "%2e%2e/secret/blue.mp4"),
    ):
        with pytest.raises(Problem) as refused:
            store.from_folder(path)
        assert refused.value.status in (400, 404), path
        assert "secret" not in str(refused.value).replace(path, "")
        assert str(videos.parent) not in str(refused.value)
    assert store.all() == []


def test_videos_in_folders_are_listed_and_stay_there(tmp_path: Path, videos: Path) -> None:
    store = VideoStore(tmp_path, 10**9, [videos])
    listed = {video["path"] for video in store.folders.videos()}
    assert listed == {"deep/red.mp4", "in.mp4"}
    video = store.from_folder("deep/red.mp4")
    assert store.from_folder("in.mp4") == video, "the same file"
    assert (video.path, video.is_uploaded) == ((videos / "deep" / "red.mp4").resolve(), False)
    assert store.size == 0
    store.delete(video.id)
    assert video.path.exists()


def test_clients_that_bring_the_same_video_at_the_same_time(tmp_path: Path, videos: Path) -> None:
    store, path = VideoStore(tmp_path, 10**9), videos / "deep" / "red.mp4"
    content = path.read_bytes()
    with ThreadPoolExecutor(8) as threads:
        brought = [threads.submit(uploaded, store, content) for _ in range(8)]
        named = [threads.submit(store.at, path, "red.mp4") for _ in range(8)]
        kept = [{each.result().id for each in videos} for videos in (brought, named)]
    # One by its content, and one by its place.
    assert [len(ids) for ids in kept] == [1, 1]
    assert store.get(kept[0].pop()).path.read_bytes() == content
    assert not list(store.incoming.iterdir())


def test_a_video_that_changes_in_its_folder_is_another_video(tmp_path: Path) -> None:
    make_video(tmp_path / "videos" / "a.mp4", "red")
    store = VideoStore(tmp_path / "out", 10**9, [tmp_path / "videos"])
    video = store.from_folder("a.mp4")
    make_video(tmp_path / "videos" / "a.mp4", "blue")
    with pytest.raises(Problem, match="moved or changed in its folder; open it by its path again"):
        store.get(video.id)
    assert store.from_folder("a.mp4").id != video.id


def test_names_of_clients_are_for_show_only(tmp_path: Path, red: bytes) -> None:
    for number, (name, shown) in enumerate(
        (
            ("../../etc/passwd", "passwd"),
            ("C:\\videos\\a.mp4", "a.mp4"),
            ("a\0b\n\x1b[2Jc.mp4", "ab c.mp4"),
            ("", "video"),
            ("x" * 999, "x" * 200 + "..."),
        )
    ):
        folder = tmp_path / str(number)
        video = uploaded(VideoStore(folder, 10**9), red, name)
        assert video.name == shown
        assert video.path == folder / "videos" / video.id / "video.mp4"


def test_what_is_no_video_is_refused_and_gone(tmp_path: Path, red: bytes) -> None:
    store = VideoStore(tmp_path, len(red) + 4096)
    playlist = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"
    for content in (b"no video at all", playlist, red[: len(red) // 2], b"\0" * 4096):
        with pytest.raises(Problem, match=r"^mine\.mp4: ") as refused:
            uploaded(store, content, "mine.mp4")
        assert str(tmp_path) not in str(refused.value)
    assert (store.all(), list(store.incoming.iterdir())) == ([], [])
    # The room that was kept for them is given back.
    with pytest.raises(Problem, match=r"mine\.srt"):
        subtitled(store, uploaded(store, red).id, "mine.srt", b"\0\1\2")


def test_an_uploaded_pocket_video_is_one(tmp_path: Path) -> None:
    made = find_video(Path("pocket:test/long_013"))
    store = VideoStore(tmp_path, 10**9)
    video = uploaded(store, made.read_bytes(), "renamed.mp4")
    assert is_pocket_video(video.path)
    note = json.loads(video.path.with_suffix(".json").read_bytes())
    assert note["files"][".mp4"] == [made.stat().st_size, hashlib.sha256(made.read_bytes()).hexdigest()]
