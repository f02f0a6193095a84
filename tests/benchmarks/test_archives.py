"""Archives as the hub has them: `check --unpack` reads pieces without joining them, and resumes after a stop.

The names of the archives are written here as their users see them on the hub, not read from the manifest.
"""

import io
import os
import pickle
import random
import shutil
import string
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.benchmark_world import LVB, MME, cg, write_json, write_parquet
from tests.support.miniature import official
from tests.support.miniature.videos import SEED, DrawnVideo
from videopro.benchmarks import archives, load, manifest
from videopro.commands.benchmarks.command import main

SIZE = 5_000


def content(name: str) -> bytes:
    """What a file has, which no compression makes smaller."""
    return random.Random(name).randbytes(SIZE)


def zipped(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, content(name))


def tarred(path: Path, *names: str) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as file:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = SIZE
            file.addfile(member, io.BytesIO(content(name)))


def cut(path: Path, names: Sequence[str]) -> None:
    """Cut a file into pieces of these names, and delete it."""
    whole = path.read_bytes()
    size = -(-len(whole) // len(names))
    path.unlink()
    for place, name in enumerate(names):
        path.with_name(name).write_bytes(whole[place * size : (place + 1) * size])


def videomme(root: Path) -> None:
    write_parquet(root / "videomme/test-00000-of-00001.parquet", MME)


def cg_bench(root: Path) -> None:
    write_json(root / "cgbench.json", [cg(number, [[0, 10]], "A") for number in range(1, 5)])


def longvideobench(root: Path) -> None:
    write_json(root / "lvb_val.json", LVB[:1])


def mlvu_test(root: Path) -> None:
    asked = {"question": "How many?", "candidates": list("123456"), "question_type": "count"}
    rows = [{**asked, "question_id": f"Q{n}", "video": f"test_{n}.mp4"} for n in range(3)]
    write_json(root / "test_multi_choice_tasks.json", rows)
    answers = [{"question_id": f"Q{n}", "answer": "3"} for n in range(3)]
    write_json(root / "test-ground-truth/test_mcq_gt.json", answers)


MME_VIDEOS = [f"video-id_{number:02}.mp4" for number in range(1, 5)]
CG_VIDEOS = [f"cg_videos_720p/uid{number}.mp4" for number in range(1, 5)]
LVB_FILES = [*(f"videos/other{number}.mp4" for number in range(30)), "videos/vid1.mp4"]
MLVU_VIDEOS = [f"video/test_{number}.mp4" for number in range(3)]
PAIRS = [f"{a}{b}" for a in "ab" for b in string.ascii_lowercase]


def whole_zips(root: Path) -> None:
    zipped(root / "videos_chunked_01.zip", *(f"data/{name}" for name in MME_VIDEOS[:2]))
    zipped(root / "videos_chunked_02.zip", *MME_VIDEOS[2:])
    zipped(root / "subtitle.zip", "subtitle/video-id_01.srt")


def chunks(root: Path) -> None:
    zipped(root / "video_chunk_01.zip", *CG_VIDEOS[:2], "__MACOSX/cg_videos_720p/._uid1.mp4")
    zipped(root / "video_chunk_02.zip", *CG_VIDEOS[2:])
    zipped(root / "clue_video_chunk_01.zip", "cg_clue_videos/1.mp4")
    zipped(root / "subtitles.zip", "cg_subtitles/uid1.srt")


def cut_zip(root: Path) -> None:
    zipped(root / "video.zip", *CG_VIDEOS)
    # Ten pieces, to be read by number and not by name.
    cut(root / "video.zip", [f"video_chunk_{number}.zip" for number in range(1, 11)])


def cut_tar(root: Path) -> None:
    tarred(root / "videos.tar", *LVB_FILES)
    cut(root / "videos.tar", [f"videos.tar.part.{pair}" for pair in PAIRS[: PAIRS.index("be") + 1]])
    tarred(root / "subtitles.tar", "subtitles/vid1_en.json")


def cut_compressed_tar(root: Path) -> None:
    (root / "MLVU_Test").mkdir()
    tarred(root / "MLVU_Test/video.tar.gz", *MLVU_VIDEOS)
    cut(root / "MLVU_Test/video.tar.gz", [f"test_video.tar.gz.part-{letter}" for letter in "abcdefgh"])


def tar_in_many_pieces(root: Path) -> None:
    tarred(root / "videos.tar", *MME_VIDEOS)
    cut(root / "videos.tar", [f"videos.tar.part{number}" for number in range(1, 12)])


def pickled(root: Path) -> None:
    (root / "video_pkl").mkdir()
    (root / "video_pkl/video_0.pkl").write_bytes(pickle.dumps({name[:-4]: b"x" for name in MME_VIDEOS}))


def check(name: str, root: Path, *more: str) -> int:
    split = ("--split", "test") if name == "mlvu" else ()
    return main(["check", name, "--root", str(root), "--protocol", "videopro", *split, *more])


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


LAYOUTS = pytest.mark.parametrize(
    ("name", "questions", "packs", "listed", "unpacked"),
    [
        (
            *("videomme", videomme, whole_zips),
            "  subtitle.zip\n  videos_chunked_01.zip\n  videos_chunked_02.zip\n",
            {f"data/{name}": name if place > 1 else f"data/{name}" for place, name in enumerate(MME_VIDEOS)}
            | {"subtitle/video-id_01.srt": "subtitle/video-id_01.srt"},
        ),
        (
            *("cg_bench", cg_bench, chunks),
            "  subtitles.zip\n  video_chunk_01.zip\n  video_chunk_02.zip\n",
            dict(zip(CG_VIDEOS, CG_VIDEOS, strict=True)) | {"cg_subtitles/uid1.srt": "cg_subtitles/uid1.srt"},
        ),
        (
            *("cg_bench", cg_bench, cut_zip),
            "  video_chunk_1.zip (10 pieces)\n",
            dict(zip(CG_VIDEOS, CG_VIDEOS, strict=True)),
        ),
        (
            *("longvideobench", longvideobench, cut_tar),
            "  subtitles.tar\n  videos.tar.part.aa (31 pieces)\n",
            {name: name for name in [*LVB_FILES, "subtitles/vid1_en.json"]},
        ),
        (
            *("mlvu", mlvu_test, cut_compressed_tar),
            "  MLVU_Test/test_video.tar.gz.part-a (8 pieces)\n",
            {f"MLVU_Test/{name}": name for name in MLVU_VIDEOS},
        ),
        (
            *("videomme", videomme, tar_in_many_pieces),
            "  videos.tar.part1 (11 pieces)\n",
            {f"data/{name}": name for name in MME_VIDEOS},
        ),
    ],
)
Make = Callable[[Path], None]


@LAYOUTS
def test_archives_are_named_and_unpacked(
    name: str,
    questions: Make,
    packs: Make,
    listed: str,
    unpacked: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "a root"
    questions(root)
    packs(root)
    before = files(root)
    assert check(name, root) == 2
    split = "--split test " if name == "mlvu" else ""
    command = f"videopro benchmarks check {name} {split}--protocol videopro --root '{root}' --unpack"
    assert f"archives not unpacked yet; run {command}\n{listed}" in capsys.readouterr().out
    assert check(name, root, "--unpack") == 0
    # Archives stay, and nothing else is left: no joined file, and none of the clips of clues.
    assert files(root) == before | {path: content(member) for path, member in unpacked.items()}
    capsys.readouterr()
    assert check(name, root, "--unpack") == 0
    assert "unpack" not in capsys.readouterr().out


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes below ROOT_OF_TEST at each file that is written; the disk is full at the one FILES_OF_TEST."""
    peaks: list[int] = []
    copy = shutil.copyfileobj

    def copied(source: object, file: object, length: int = 0) -> None:
        copy(source, file, length)  # type: ignore[arg-type, call-overload]
        file.flush()  # type: ignore[attr-defined]
        root = Path(os.environ["ROOT_OF_TEST"])
        peaks.append(sum(path.stat().st_size for path in root.rglob("*") if path.is_file()))
        if os.environ.get("FILES_OF_TEST") == str(len(peaks)):
            file.truncate(SIZE // 2)  # type: ignore[attr-defined]
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(archives.shutil, "copyfileobj", copied)
    return peaks


@LAYOUTS
@pytest.mark.parametrize("more", [(), ("--remove-archives",)], ids=["kept", "removed"])
def test_what_a_full_disk_stops_goes_on_from_there(
    name: str,
    questions: Make,
    packs: Make,
    listed: str,
    unpacked: dict[str, str],
    more: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    disk: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ROOT_OF_TEST", str(tmp_path))
    questions(tmp_path)
    asked = files(tmp_path)
    packs(tmp_path)
    kept = {path: data for path, data in files(tmp_path).items() if path not in asked}
    for at in (1, 3):
        monkeypatch.setenv("FILES_OF_TEST", str(at))
        assert check(name, tmp_path, "--unpack", *more) == 2
        assert "cannot be unpacked (No space left on device)" in capsys.readouterr().err
        disk.clear()
    monkeypatch.delenv("FILES_OF_TEST")
    assert check(name, tmp_path, "--unpack", *more) == 0
    left = {path: data for path, data in kept.items() if "clue" in path} if more else kept
    assert files(tmp_path) == asked | left | {path: content(member) for path, member in unpacked.items()}


@pytest.mark.parametrize(
    ("name", "questions", "packs", "pieces"),
    [
        ("longvideobench", longvideobench, cut_tar, 31),
        ("cg_bench", cg_bench, cut_zip, 10),
        ("videomme", videomme, whole_zips, 2),
    ],
)
def test_the_disk_needs_the_archive_and_little_more_when_pieces_go_as_they_are_done(
    name: str,
    questions: Make,
    packs: Make,
    pieces: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    disk: list[int],
) -> None:
    monkeypatch.setenv("ROOT_OF_TEST", str(tmp_path))
    questions(tmp_path)
    packs(tmp_path)
    packed = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert check(name, tmp_path, "--unpack", "--remove-archives") == 0
    # A file that is written, and the pieces that it lies in.
    assert max(disk) <= packed + 2 * SIZE + 2 * packed // pieces


@pytest.mark.parametrize(
    ("benchmark", "split"),
    [
        *(("cg_bench", "full"), ("lvbench", "test"), ("videomme", "all")),
        *(("longvideobench", "val"), ("mlvu", "test")),
    ],
)
def test_the_miniature_has_the_archives_of_the_manifest(benchmark: str, split: str, tmp_path: Path) -> None:
    """With a few bytes in place of its videos."""
    drawn, items = [], load("pocket", split="fresh", world_seed=SEED).items
    for name in ("short_000", "short_001"):
        video, subtitles = tmp_path / f"{name}.mp4", tmp_path / f"{name}.srt"
        video.write_bytes(content(name))
        subtitles.write_text("1\n00:00:00,000 --> 00:00:02,000\nhello\n")
        about = tuple(item for item in items if item.video.stem == name)
        drawn.append(DrawnVideo(name, video, subtitles, 90.0, about))
    root = tmp_path / "root"
    root.mkdir()
    getattr(official, f"write_{benchmark}")(root, drawn)
    known = [each.pattern for repository in manifest(benchmark).of(split) for each in repository.files]
    assert all(any(fnmatch(path, pattern) for pattern in known) for path in files(root))
    command = ["check", benchmark, "--split", split, "--protocol", "videopro", "--root", str(root)]
    assert main([*command, "--unpack"]) == 0
    found = load(benchmark, split=split, root=root, protocol="videopro").items
    expected = [content(each.name) for each in drawn for _ in each.items]
    assert [item.video.read_bytes() for item in found] == expected


def test_a_missing_piece_is_named_before_anything_is_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mlvu_test(tmp_path)
    cut_compressed_tar(tmp_path)
    for letter in "ch":
        (tmp_path / f"MLVU_Test/test_video.tar.gz.part-{letter}").unlink()
    assert check("mlvu", tmp_path) == 2
    missing = "missing pieces: test_video.tar.gz.part-c, test_video.tar.gz.part-h;"
    assert missing in capsys.readouterr().out
    assert check("mlvu", tmp_path, "--unpack") == 2
    assert missing in capsys.readouterr().err
    assert not (tmp_path / "MLVU_Test/video").exists()


@pytest.mark.parametrize("name", ["../outside.mp4", "/tmp/outside.mp4", "data/../../outside.mp4"])
@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz"])
def test_a_file_for_outside_the_folder_is_refused(
    name: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    videomme(root)
    (zipped if ending == "zip" else tarred)(root / f"videos.{ending}", f"data/{MME_VIDEOS[0]}", name)
    assert check("videomme", root, "--unpack") == 2
    assert "for outside its folder" in capsys.readouterr().err
    assert not (tmp_path / "outside.mp4").exists()


def test_links_in_an_archive_are_left_out(tmp_path: Path) -> None:
    videomme(tmp_path)
    (tmp_path / "secret").mkdir()
    with tarfile.open(tmp_path / "videos.tar", "w") as file:
        link = tarfile.TarInfo("data")
        link.type, link.linkname = tarfile.SYMTYPE, "secret"
        file.addfile(link)
        member = tarfile.TarInfo(f"data/{MME_VIDEOS[0]}")
        member.size = SIZE
        file.addfile(member, io.BytesIO(content("a")))
    assert check("videomme", tmp_path, "--unpack") == 2
    assert [path.name for path in (tmp_path / "secret").iterdir()] == []
    assert (tmp_path / "data" / MME_VIDEOS[0]).read_bytes() == content("a")


def test_videos_that_are_there_stay(tmp_path: Path) -> None:
    cg_bench(tmp_path)
    cut_zip(tmp_path)
    (tmp_path / "cg_videos_720p").mkdir()
    (tmp_path / CG_VIDEOS[0]).write_bytes(b"a smaller copy")
    assert check("cg_bench", tmp_path, "--unpack") == 0
    assert (tmp_path / CG_VIDEOS[0]).read_bytes() == b"a smaller copy"


def test_a_damaged_archive_is_named_and_a_pickle_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    videomme(tmp_path)
    for name in ("a.zip", "b.tar"):
        (tmp_path / name).write_bytes(b"no archive")
        assert check("videomme", tmp_path) == 2
        assert f"  {name}\n" in capsys.readouterr().out
        assert check("videomme", tmp_path, "--unpack") == 2
        assert f"{name}: cannot be unpacked" in capsys.readouterr().err
        (tmp_path / name).unlink()
    pickled(tmp_path)
    assert check("videomme", tmp_path, "--unpack") == 2
    assert "video_0.pkl: not unpacked, because loading a pickle can run any code" in capsys.readouterr().err


def test_subtitles_that_a_protocol_needs_are_unpacked_before_it_asks_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "lvb_val.json", LVB[:1])
    tarred(tmp_path / "videos.tar", "videos/vid1.mp4")
    tarred(tmp_path / "subtitles.tar", "subtitles/vid1_en.json")
    command = ["check", "longvideobench", "--root", str(tmp_path), "--protocol", "subtitles"]
    assert main(command) == 2
    assert "unpack subtitles.tar: videopro benchmarks check longvideobench" in capsys.readouterr().err
    assert main([*command, "--unpack"]) == 0
    assert (tmp_path / "subtitles/vid1_en.json").is_file()
