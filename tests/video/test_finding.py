"""Files under the names that downloaders give them, and through links."""

from pathlib import Path

import pytest

from tests.support.colours import COLOURS, load_fake, make_video
from videopro.benchmarks import VideoFiles
from videopro.commands.ask.command import main as ask
from videopro.errors import BenchmarkError
from videopro.video import files_below, names_of

ID = "dQw4w9WgXcQ"


def put(root: Path, *names: str) -> None:
    """Files with these names; each has its name as content, so that no two are copies."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def video(root: Path, name: str = ID) -> str:
    return str(VideoFiles(root).video(name, "videos").relative_to(root))


@pytest.mark.parametrize(
    "file",
    [
        f"videos/{ID}.mp4",
        f"videos/A video, part 1 [{ID}].mp4",
        f"more/below/A video [x] [{ID}].MKV",
        f"videos/A video-{ID}.mp4",
    ],
)
def test_a_downloaded_video_is_found(tmp_path: Path, file: str) -> None:
    put(tmp_path, file, "videos/other.mp4", f"videos/A video [{ID}].mp4.part", f"videos/{ID}.json")
    assert video(tmp_path) == file


def test_the_id_may_begin_with_a_dash() -> None:
    assert names_of("Title--Qw4w9WgXcQ") == ("Title--Qw4w9WgXcQ", "-Qw4w9WgXcQ")
    assert names_of("my-video") == ("my-video",)
    assert names_of("[x]") == ("[x]", "x")


def test_several_matches_are_named(tmp_path: Path) -> None:
    put(tmp_path, f"videos/Short [{ID}].mp4", f"videos/A longer title [{ID}].mp4")
    with pytest.raises(
        BenchmarkError, match=r"A longer .*\.mp4, videos/Short .* or rename it to dQw4w9WgXcQ.mp4"
    ):
        video(tmp_path)
    # The exact name settles it.
    put(tmp_path, f"videos/{ID}.mp4", f"subtitles/{ID}.de.srt", f"subtitles/{ID}.fr.vtt")
    assert video(tmp_path) == f"videos/{ID}.mp4"
    with pytest.raises(BenchmarkError, match=rf"{ID}.de.srt, {ID}.fr.vtt; keep one"):
        subtitles(tmp_path)


def test_links_are_followed_and_may_form_circles(tmp_path: Path) -> None:
    root, disk = tmp_path / "root", tmp_path / "disk"
    put(disk, "part/a.mp4", "b.mp4")
    root.mkdir()
    (root / "linked").symlink_to(disk)
    (disk / "part" / "up").symlink_to(disk)
    (root / "self").symlink_to(root)
    (root / "gone.mp4").symlink_to(tmp_path / "nowhere.mp4")
    (root / "c.mp4").symlink_to(disk / "b.mp4")
    found = sorted(str(path.relative_to(root)) for path in files_below(root))
    assert found == ["c.mp4", "linked/b.mp4", "linked/part/a.mp4"]
    assert VideoFiles(root).video("a", "videos") == root / "linked" / "part" / "a.mp4"
    assert VideoFiles(root).video("gone", "videos") == root / "videos" / "gone.mp4"


def subtitles(root: Path, name: str = ID) -> str | None:
    files = VideoFiles(root)
    found = files.subtitles(name, "subtitles", video=files.video(name, "videos"))
    return None if found is None else str(found.relative_to(root))


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ("subtitles/{ID}.srt subtitles/{ID}.en.srt", "subtitles/{ID}.srt"),
        ("subtitles/{ID}.EN.VTT", "subtitles/{ID}.EN.VTT"),
        ("videos/A_video_[{ID}].en-US.vtt", "videos/A_video_[{ID}].en-US.vtt"),
        # English of several languages, and a .srt of several forms.
        ("subtitles/{ID}.de.srt subtitles/{ID}.en.vtt subtitles/{ID}.en.srt", "subtitles/{ID}.en.srt"),
        ("subtitles/{ID}.en-orig.srt subtitles/{ID}.en.vtt subtitles/{ID}.fr.vtt", "subtitles/{ID}.en.vtt"),
        ("subtitles/{ID}.de.srt", "subtitles/{ID}.de.srt"),
        # Forced ones, where there are no others only.
        ("subtitles/{ID}.en.forced.srt subtitles/{ID}.de.srt", "subtitles/{ID}.de.srt"),
        ("subtitles/{ID}.en.forced.srt subtitles/{ID}.en.sdh.srt", "subtitles/{ID}.en.sdh.srt"),
        ("subtitles/{ID}.en.forced.srt", "subtitles/{ID}.en.forced.srt"),
        # Other files.
        ("subtitles/{ID}.E02.srt subtitles/{ID}.live_chat.json subtitles/other.en.srt", ""),
    ],
)
def test_downloaded_subtitles_are_found(tmp_path: Path, files: str, found: str) -> None:
    put(tmp_path, f"videos/A_video_[{ID}].mp4", *files.format(ID=ID).split())
    assert subtitles(tmp_path) == (found.format(ID=ID) or None)


def test_ask_finds_what_lies_beside_the_video(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = tmp_path / f"A video [{ID}].mp4"
    make_video(video, "red")
    (tmp_path / f"A video [{ID}].en.srt").write_text("1\n00:00:00,000 --> 00:00:02,000\nthe code is seven\n")
    (tmp_path / f"A video [{ID}].en.forced.srt").write_text("1\n00:00:00,000 --> 00:00:02,000\nforced\n")
    prompt = tmp_path / "prompt.txt"
    words = [str(video), "Which?", "--choices", *COLOURS, "--model", "m", "--backbone", f"log={prompt}"]
    assert ask([*words, "--options", "subtitles=all"], load=load_fake) == 0
    assert "the code is seven" in prompt.read_text()
    assert (
        f"subtitles next to the video, for methods that read them: A video [{ID}].en.srt"
        in capsys.readouterr().err
    )
