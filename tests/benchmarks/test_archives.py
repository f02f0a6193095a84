"""The commands that `check` prints for archives: each is run, and the videos are then found."""

import io
import os
import pickle
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.benchmark_world import LVB, MLVU_TASKS, MME, cg, mlvu, write_json, write_parquet
from videopro.commands.benchmarks.command import main

CONTENT = b"something" * 50


def zipped(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, CONTENT)


def tarred(path: Path, *names: str) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as file:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT)
            file.addfile(member, io.BytesIO(CONTENT))


def cut(path: Path, names: list[str]) -> None:
    """Cut a file into pieces of these names, and delete it."""
    content = path.read_bytes()
    size = -(-len(content) // len(names))
    path.unlink()
    for place, name in enumerate(names):
        path.with_name(name).write_bytes(content[place * size : (place + 1) * size])


def videomme(root: Path) -> None:
    write_parquet(root / "videomme/test-00000-of-00001.parquet", MME)


def cg_bench(root: Path) -> None:
    write_json(root / "cgbench.json", [cg(number, [[0, 10]], "A") for number in (1, 2)])


def mlvu_dev(root: Path) -> None:
    for task in MLVU_TASKS:
        records = [mlvu("a.mp4", ["x", "y"], "x", "plotQA")] if task == "1_plotQA" else []
        write_json(root / f"MLVU/json/{task}.json", records)


def check(name: str, root: Path, *more: str) -> int:
    protocol = () if name == "longvideobench" else ("--protocol", "videopro")
    return main(["check", name, "--root", str(root), *protocol, *more])


MME_VIDEOS = [f"video-id_{number:02}.mp4" for number in range(1, 5)]


def two_zips(root: Path) -> None:
    zipped(root / "videos_chunked_01.zip", *(f"data/{name}" for name in MME_VIDEOS[:2]))
    zipped(root / "videos_chunked_02.zip", *MME_VIDEOS[2:])
    zipped(root / "subtitle.zip", "subtitle/video-id_01.srt")


def cut_zip(root: Path) -> None:
    zipped(root / "video.zip", "cg_videos_720p/uid1.mp4", "cg_videos_720p/uid2.mp4")
    # Ten pieces, to be joined by number and not by name.
    cut(root / "video.zip", [f"video_chunk_{number}.zip" for number in range(1, 11)])


def cut_tar(root: Path) -> None:
    tarred(root / "videos.tar.gz", *MME_VIDEOS)
    cut(root / "videos.tar.gz", ["videos.tar.gz.part.aa", "videos.tar.gz.part.ab"])


def tar_in_many_pieces(root: Path) -> None:
    tarred(root / "videos.tar", *MME_VIDEOS)
    cut(root / "videos.tar", [f"videos.tar.part{number}" for number in range(1, 12)])


def one_tar(root: Path) -> None:
    tarred(root / "MLVU/video a.tar", "video/1_plotQA/a.mp4")


def pickled(root: Path) -> None:
    (root / "video_pkl").mkdir()
    (root / "video_pkl/video_0.pkl").write_bytes(pickle.dumps({name[:-4]: b"x" for name in MME_VIDEOS}))


@pytest.mark.parametrize(
    ("name", "questions", "archives", "expected"),
    [
        (
            *("videomme", videomme, two_zips),
            (
                "unzip -n {root}/videos_chunked_01.zip -d {root}\n",
                "unzip -n {root}/videos_chunked_02.zip -d {root}/data\n",
                "unzip -n {root}/subtitle.zip -d {root}\n",
            ),
        ),
        ("cg_bench", cg_bench, cut_zip, ("rm {root}/joined-video_chunk_1.zip",)),
        ("videomme", videomme, cut_tar, ("| tar -xzf - -C {root}/data",)),
        ("videomme", videomme, tar_in_many_pieces, ("videos.tar.part9 {root}/videos.tar.part10 ",)),
        ("mlvu", mlvu_dev, one_tar, ("tar -xf '{root}/MLVU/video a.tar' -C {root}",)),
        ("videomme", videomme, pickled, ("{root}/video_pkl/video_0.pkl {root}/data",)),
    ],
)
def test_the_commands_unpack_the_videos(
    name: str,
    questions: Callable[[Path], None],
    archives: Callable[[Path], None],
    expected: Sequence[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "root"
    questions(root)
    archives(root)
    assert check(name, root) == 2
    output = capsys.readouterr().out
    assert all(command.format(root=root) in output for command in expected)
    listed = output.split("unpack them with\n")[1].splitlines()
    commands = [line.strip() for line in listed if line.startswith("  ")]
    if any("unzip" in command for command in commands) and not shutil.which("unzip"):
        pytest.skip("unzip is not installed")
    for command in commands:
        subprocess.run(["bash", "-c", command], check=True, capture_output=True)
    assert check(name, root) == 0
    assert "not unpacked" not in capsys.readouterr().out


def test_a_damaged_archive_is_named_and_a_pickle_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    videomme(tmp_path)
    for name in ("a.zip", "b.tar", "c.7z"):
        (tmp_path / name).write_bytes(b"no archive")
    assert check("videomme", tmp_path) == 2
    output = capsys.readouterr().out
    for command in ("unzip -n {}/a.zip", "tar -xf {}/b.tar", "7z x {}/c.7z"):
        assert command.format(tmp_path) in output
    for name in ("a.zip", "c.7z"):
        (tmp_path / name).unlink()
    assert check("videomme", tmp_path, "--unpack") == 2
    assert "b.tar: cannot be unpacked" in capsys.readouterr().err
    (tmp_path / "b.tar").unlink()
    pickled(tmp_path)
    assert check("videomme", tmp_path, "--unpack") == 2
    assert "video_0.pkl: not unpacked, because loading a pickle can run any code" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "questions", "archives", "tool", "last"),
    [
        ("videomme", videomme, two_zips, "unzip", "subtitle/video-id_01.srt"),
        # Every file is there when it is stopped.
        ("cg_bench", cg_bench, cut_zip, "unzip", "cg_videos_720p/uid2.mp4"),
        ("videomme", videomme, cut_tar, "tar", "data/video-id_04.mp4"),
    ],
)
def test_what_a_full_disk_cut_off_is_unpacked_again(
    name: str,
    questions: Callable[[Path], None],
    archives: Callable[[Path], None],
    tool: str,
    last: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if (program := shutil.which(tool)) is None:
        pytest.skip(f"{tool} is not installed")
    root, stopped = tmp_path / "root", tmp_path / "bin" / tool
    questions(root)
    archives(root)
    stopped.parent.mkdir()
    stopped.write_text(f'#!/bin/sh\n{program} "$@"\nprintf x > {root / last}\nexit 50\n')
    stopped.chmod(0o755)
    with monkeypatch.context() as full:
        full.setenv("PATH", f"{stopped.parent}{os.pathsep}{os.environ['PATH']}")
        assert check(name, root, "--unpack") == 2
    assert check(name, root) == 2
    assert (root / last).read_bytes() == b"x"
    assert check(name, root, "--unpack") == 0
    assert (root / last).read_bytes() == CONTENT
    assert not [path for path in root.rglob("*") if path.name.startswith("joined-")]
    assert check(name, root, "--unpack") == 0


def test_subtitles_that_a_protocol_needs_are_unpacked_before_it_asks_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "lvb_val.json", LVB[:1])
    tarred(tmp_path / "videos.tar", "videos/vid1.mp4")
    tarred(tmp_path / "subtitles.tar", "subtitles/vid1_en.json")
    command = ("longvideobench", tmp_path, "--protocol", "subtitles")
    assert check(*command) == 2
    assert f"unpack subtitles.tar: mkdir -p {tmp_path} && tar -xf" in capsys.readouterr().err
    assert check(*command, "--unpack") == 0
    assert (tmp_path / "subtitles/vid1_en.json").is_file()
