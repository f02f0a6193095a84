"""Makes the pocket world's splits on disk: H.264 videos, .srt narration and questions, from seeds.

    from videopro.pocket import world
    folder = world.ensure("test")           # questions.jsonl, videos/NAME.mp4, videos/NAME.srt

A split is generated once and kept; after an interruption, generating it again resumes where it stopped. Every
file is written under another name and renamed when complete; a damaged one (`videopro.pocket.manifest`) is
generated again. Nothing else may read the scripts.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from fractions import Fraction
from multiprocessing import active_children
from pathlib import Path

import av
import pysubs2
from av.video.reformatter import Interpolation

from videopro.cli import Counter, cache_root
from videopro.errors import BenchmarkError
from videopro.pocket import drawing, manifest, questions, vocabulary
from videopro.pocket.script import LENGTHS, Script, make_script
from videopro.question import NO_OPTION
from videopro.startup import OwnFunctions, exit_with_parent

# Videos of each length in a split, and its first seed. Disjoint by construction.
SPLITS = {
    "train": (60, 100_000),
    "val": (12, 200_000),
    "test": (22, 300_000),
}
# Seeds between two worlds of "fresh": more than a split has videos.
SEED_ROOM = 10_000
HELDOUT, TWINS = "-heldout", "-twins"
_EXACT = Interpolation.BILINEAR | Interpolation.BITEXACT


# The fingerprint hashes the repr of plans and questions, with the former names of renamed classes.
_NAMES_BEFORE = {"PocketQuestion": "Asked", "NarrationLine": "Spoken"}


def fingerprint() -> str:
    """A hash of the world: its words, its look, and the scripts and questions generated from seeds.

    Code may be rewritten without changing it; a world of another fingerprint is another benchmark.
    """
    digest = hashlib.sha256()
    vocabulary_lists = {name: value for name, value in vars(vocabulary).items() if name.isupper()}
    digest.update(repr(sorted(vocabulary_lists.items())).encode())
    digest.update(repr((drawing.LOOKS, drawing.WIDTH, drawing.HEIGHT, drawing.FPS, SPLITS)).encode())
    for length in LENGTHS:
        for seed in range(3):
            plan = make_script(length, seed)
            drawn = repr((plan, questions.generate_questions(plan)))
            for name, before in _NAMES_BEFORE.items():
                drawn = drawn.replace(f"{name}(", f"{before}(")
            digest.update(drawn.encode())
    return digest.hexdigest()[:12]


def video_names(split: str, seed: int | None = None) -> list[tuple[str, str, int]]:
    """(name, length, seed) of each video of a split, the lengths in turn, so that any first few contain all
    three.

    "train", "val" and "test" have their own seeds; "fresh" needs a `seed` of its own and has as many videos
    as test. After any of them, for the same videos, "-heldout" uses the held-out phrasings, and "-twins" adds
    the questions' unanswerable twins.
    """
    base = _base(split)
    if base == "fresh":
        if seed is None:
            raise BenchmarkError("the pocket split 'fresh' needs a seed: set --world-seed N")
        count, first = SPLITS["test"][0], 1_000_000 + seed * SEED_ROOM
    elif base in SPLITS:
        if seed is not None:
            raise BenchmarkError(
                f"the pocket split '{base}' has its own seeds: use the split 'fresh' with a seed"
            )
        count, first = SPLITS[base]
    else:
        variants = [f"{name}{variant}" for variant in (HELDOUT, TWINS) for name in SPLITS]
        splits = ", ".join([*SPLITS, "fresh", *variants])
        raise BenchmarkError(f"the pocket world has no split '{split}'; choose one of {splits}")
    return [(f"{length}_{i:03d}", length, first + i) for i in range(count) for length in LENGTHS]


def _base(split: str) -> str:
    return split.removesuffix(HELDOUT).removesuffix(TWINS)


def records(split: str, seed: int | None = None) -> Iterator[dict[str, object]]:
    """The question records of a split, in the order of `video_names`; draws nothing."""
    phrasing = "heldout" if split.endswith(HELDOUT) else "usual"
    for name, length, number in video_names(split, seed):
        script = make_script(length, number)
        asked = questions.generate_questions(script, phrasing=phrasing)
        if split.endswith(TWINS):
            pairs = ((question, questions.unanswerable_twin(script, question)) for question in asked)
            asked = [question for pair in pairs for question in pair if question is not None]
        for question in asked:
            twin = "_twin" if question.answer == NO_OPTION else ""
            yield {
                "id": f"{split}_{name}_{question.kind}{twin}",
                "video": f"videos/{name}.mp4",
                "subtitles": f"videos/{name}.srt",
                "question": question.text,
                "choices": list(question.choices),
                "answer": question.answer,
                "family": question.family,
                "kind": question.kind,
                "length": length,
                "evidence": [[round(a, 3), round(b, 3)] for a, b in question.evidence],
            }


def ensure(
    split: str,
    root: Path | None = None,
    seed: int | None = None,
    *,
    videos: Collection[str] | None = None,
    quiet: bool = False,
) -> Path:
    """Generate the missing or damaged parts of a split, and return its folder.

    `videos` names those that are needed ("short_000"); all of them without it. `questions.jsonl` always lists
    the whole split. If several processes need the same split, one generates it and the others wait.
    Raises BenchmarkError if the folder cannot be written.
    """
    names = video_names(split, seed)
    unknown = sorted(set(videos or ()) - {name for name, _, _ in names})
    if unknown:
        raise BenchmarkError(f"the pocket split '{split}' has no video '{unknown[0]}'")
    base = _base(split)
    world = "" if seed is None else f"-{seed}"
    root = root or cache_root()
    shared = root / f"pocket-{fingerprint()}" / f"{base}{world}"
    folder = shared.with_name(shared.name + split.removeprefix(base))
    try:
        (shared / "videos").mkdir(parents=True, exist_ok=True)
        if folder != shared:
            folder.mkdir(exist_ok=True)
            link = folder / "videos"
            # Their questions are about the same videos; a relative link survives a moved cache.
            if not link.is_symlink():
                link.symlink_to(os.path.relpath(shared / "videos", folder))
        lines = "".join(json.dumps(record) + "\n" for record in records(split, seed)).encode()
        listing = folder / "questions.jsonl"
        if not listing.exists() or listing.read_bytes() != lines:
            manifest.write_file(listing, lines)
        jobs = {
            shared / "videos" / name: (length, number)
            for name, length, number in names
            if videos is None or name in videos
        }
        # Looked at before the lock, so that a complete split waits for nobody.
        if _faults(jobs):
            with _exclusive_lock(root, f"pocket {split}", quiet):
                # The previous holder of the lock may have made them.
                _make_all(jobs, _faults(jobs), f"pocket {split}", quiet)
    except OSError as error:
        raise BenchmarkError(
            f"cannot write the pocket world to {error.filename or shared}: {error.strerror}; "
            "free some space there or set VIDEOPRO_CACHE to another folder"
        ) from error
    return folder


def _faults(stems: Collection[Path]) -> dict[Path, str]:
    """What is wrong with each video that must be made; "" for a missing one."""
    return {stem: wrong for stem in stems if (wrong := manifest.find_video_fault(stem)) is not None}


@contextmanager
def _exclusive_lock(root: Path, title: str, quiet: bool) -> Iterator[None]:
    """Let only one process at a time make videos: ranks that start together would each make them all."""
    with (root / "pocket.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not quiet:
                print(f"{title}: waiting for another process that is making pocket videos", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_all(
    videos: Mapping[Path, tuple[str, int]], faults: Mapping[Path, str], title: str, quiet: bool
) -> None:
    if not faults:
        return
    damaged = [wrong for wrong in faults.values() if wrong]
    if damaged:
        more_damaged = f", and {len(damaged) - 1} more are damaged" if len(damaged) > 1 else ""
        print(f"{title}: {damaged[0]}{more_damaged}; generating again", file=sys.stderr)
    for stem in faults:
        for left in stem.parent.glob(f".{stem.name}.*"):  # Left by a killed process: this one holds the lock.
            left.unlink()
    jobs = [(*videos[stem], stem) for stem in faults]
    jobs.sort(key=lambda job: -LENGTHS.index(job[0]))  # the long ones first, to balance the workers
    workers = min(len(jobs), os.cpu_count() or 1)
    # Spawned, so that no child holds a lock of the caller's; a child whose parent was killed ends too.
    with (
        Counter(f"making {title} videos", len(jobs), visible=not quiet) as counter,
        ProcessPoolExecutor(
            workers, mp_context=OwnFunctions(), initializer=exit_with_parent, initargs=(os.getpid(),)
        ) as pool,
    ):
        before = set(active_children())
        try:
            for done in [pool.submit(make_video, *job) for job in jobs]:
                done.result()
                counter.advance()
        except BrokenProcessPool as error:
            raise BenchmarkError(
                f"{title}: a process that made a video died; check the memory, and re-run the same command "
                "to resume"
            ) from error
        except BaseException:
            # Without this, leaving the pool would wait until every video is made.
            pool.shutdown(wait=False, cancel_futures=True)
            # Only the pool's own: the caller may have other children.
            for child in set(active_children()) - before:
                child.terminate()
            raise


def make_video(length: str, seed: int, stem: Path) -> None:
    """Draw one video to `stem`.mp4 and its narration to `stem`.srt, with a manifest of both. Raises
    OSError."""
    plan = make_script(length, seed)
    subtitles = pysubs2.SSAFile()
    for line in plan.lines:
        subtitles.append(pysubs2.SSAEvent(round(line.start * 1000), round(line.end * 1000), line.text))
    parts = {suffix: stem.with_name(f".{stem.name}.{os.getpid()}{suffix}") for suffix in manifest.SUFFIXES}
    try:
        parts[".srt"].write_bytes(subtitles.to_string("srt").encode())
        encode(plan, parts[".mp4"])
        manifest.put(stem, parts)
    except OSError as error:
        # A plain OSError: PyAV's own errors cannot be returned from a process.
        raise OSError(error.errno, error.strerror or str(error), str(stem)) from None
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def encode(plan: Script, path: Path) -> None:
    """Write a script's frames as H.264 (4:2:0, B-frames, a keyframe every 250 frames or at a cut): the same
    bytes in every process and on every processor, by the same versions of FFmpeg and x264."""
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=drawing.FPS)
        stream.width, stream.height, stream.pix_fmt = drawing.WIDTH, drawing.HEIGHT, "yuv420p"
        stream.codec_context.time_base = Fraction(1, drawing.FPS)
        # One thread, because several encode other bytes on machines with other numbers of processors.
        stream.codec_context.thread_count = 1
        stream.options = {**manifest.ENCODING}
        count = 0
        for scene in plan.scenes:
            view = drawing.SceneView(scene.place, plan.weather, scene.actor, scene.sign, scene.seed)
            while count < round(scene.end * drawing.FPS):
                clock = count / drawing.FPS
                drawn = av.VideoFrame.from_ndarray(view.draw(clock - scene.start, clock), format="rgb24")
                # Otherwise the rounding depends on the processor.
                frame = drawn.reformat(format="yuv420p", interpolation=_EXACT, threads=1)
                frame.pts, frame.time_base = count, Fraction(1, drawing.FPS)
                container.mux(stream.encode(frame))
                count += 1
        container.mux(stream.encode(None))
