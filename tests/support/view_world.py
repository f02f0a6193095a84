"""A run for tests of the viewer: six questions with everything that a page shows, about a small video, and
two that are missing; texts that would break a page that took them for markup.

The first video's pictures carry their own number (`tests.support.making_videos`), so that what a thumbnail
shows can be read back from its pixels.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.making_videos import make
from tests.support.traces import make as small
from videopro.benchmarks.base import ROBUST, Protocol
from videopro.question import Answer
from videopro.report.pages.content import StoredPrompts
from videopro.runs import RunFolder, run_key
from videopro.traces import Call, Cost, Execution, Failure, Round, Trace, TraceLog, VideoRef

IDENTITY = {"protocol": {"benchmark": "made", **Protocol(parser=ROBUST).identity()}}
NO_PROMPTS = StoredPrompts({})
"""The prompts of a run that stored none."""
RATE = 4
PICTURES = 80
SECONDS = PICTURES / RATE
HOSTILE = "</script><script>window.hurt=1</script><img src=x onerror='window.hurt=1'> & \"quoted\" \u2028 \\"
CHOICES = ("a red kite", "a green boat", "a blue car", "a grey cat")

FIRST = """def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "kite", top_k=1)
    frames = extract_frames(clips[0], num_frames=4)
    return query_mc(frames, question, choices)"""
SECOND = """def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "red kite", top_k=1)
    frames = extract_frames(clips[0], num_frames=4)
    parts = []
    for frame in frames:
        for box in detect_object(frame, "kite"):
            parts.append(crop(frame, box))
    lines = get_informative_subtitles(video, "kite")
    return query_mc(parts, question, choices)"""


def reply(letter: str | None, confidence: float) -> Answer:
    rest = (1 - confidence) / 3
    letters = {option: confidence if option == letter else rest for option in "ABCD"}
    return Answer(letter, confidence, letters, letter or "Hm")


def execution(given: Answer, *calls: Call, seconds: float = 1.0) -> Execution:
    cost = Cost(seconds, {"backbone": seconds / 2}, 4, 1, 300, 1)
    return Execution("ok" if given.letter else "empty", given, calls=calls, cost=cost)


def at(number: int) -> float:
    """The time of a picture of the video, in s."""
    return number / RATE


def called(fn: str, line: int, result: str, args: dict[str, Any], seconds: float, **more: Any) -> Call:
    return Call(fn, args, result, seconds=seconds, line=line, **more)


def whole(number: int) -> tuple[float, ...]:
    return (at(number), 64.0, 128.0)


def refined(video: VideoRef) -> Trace:
    """Wrong at first, set right by a refinement that crops."""
    part = (at(9), 64.0, 128.0, 0.25, 0.25, 0.75, 0.75)
    before, after = reply("B", 0.4), reply("A", 0.9)
    looked = tuple(whole(number) for number in (8, 9, 10, 11))
    clips, named = "([(2, 3)], [Clip(2.0-3.0 s)])", "Frame(2.25 s, part 32,16,96,48)"

    def retrieved(query: str, start: float, **more: Any) -> tuple[Call, Call]:
        asked = {"video": "Video(20.0 s)", "query": query}
        clip = {"video": f"Clip({start}-{start + 1} s)", "num_frames": 4}
        return (
            called("get_informative_clips", 2, clips, asked, 0.1, intervals=((start, start + 1),), **more),
            called("extract_frames", 3, "[Frame(2.00 s)]", clip, 0.0),
        )

    def detected(number: int) -> Call:
        box = "[Box(32, 16, 96, 48, 'kite', score 0.81)]" if number == 9 else "[]"
        asked = {"frame": f"Frame({at(number):.2f} s)", "text": "kite"}
        return called("detect_object", 6, box, asked, 0.2, frames=(whole(number),))

    lines = "[Line(2.0-3.0 s, 'See the kite fly.')]"
    spoken = called("get_informative_subtitles", 8, lines, {"query": "kite"}, 0.1, intervals=((2.0, 3.0),))
    seen = {"frames": "[4 frames, 2.00-2.75 s]"}
    first = execution(
        before,
        *retrieved("kite", 4.0),
        called("query_mc", 4, "Answer('B', confidence 0.400)", seen, 0.5, frames=looked),
    )
    second = execution(
        after,
        *retrieved("red kite", 2.0, cached=True),
        *map(detected, (8, 9, 10, 11)),
        called("crop", 7, named, {"frame": "Frame(2.25 s)"}, 0.0),
        spoken,
        called("query_mc", 9, "Answer('A', confidence 0.900)", {"frames": f"[{named}]"}, 0.5, frames=(part,)),
    )
    written = "<planning>\n{}\n</planning>\n<code>\n{}\n</code>"
    rounds = (
        Round("plan", written.format("Look for the kite.", FIRST), FIRST, first, "program"),
        Round("program_refinement", written.format("Cut it out.", SECOND), SECOND, second, "program"),
    )
    told: dict[str, Any] = {"refined": 1, "selected": 1, "evidence": ((2.0, 3.0),)}
    return trace("refined", video, "What flies over the hill?", rounds, before, after, **told)


def trace(
    id: str,
    video: VideoRef,
    question: str,
    rounds: tuple[Round, ...],
    first: Answer | None,
    final: Answer | None,
    *,
    family: str = "attribute",
    **changes: Any,
) -> Trace:
    made = small(
        id,
        run_key=run_key(IDENTITY),
        video=video,
        question=question,
        choices=CHOICES,
        groups={"family": family, "duration": "short"},
        rounds=rounds,
        first=first,
        final=final,
        selected=0,
        official=final.letter if final else None,
        cost=Cost(3.0, {}, 8, 2, 600, 40),
    )
    return replace(made, **changes)


def direct(letter: str | None, confidence: float, raw: str = "") -> tuple[tuple[Round, ...], Answer, Answer]:
    given = reply(letter, confidence)
    call = Call("answer", {"frames": 2}, raw or given.raw, (whole(0), whole(40)))
    return (Round("native", given.raw, execution=execution(given, call), mode="native"),), given, given


def traces(root: Path) -> list[Trace]:
    """The six, about videos in `root`, the first of which is made."""
    path = root / "numbers.mp4"
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        make(path, PICTURES, rate=RATE)
    video = VideoRef(str(path), "numbers.mp4", "", SECONDS)
    # This one was there when the run was made.
    lost = VideoRef(str(root / "lost.mp4"), "lost.mp4", "", SECONDS)
    gone = VideoRef(str(root / "gone.mp4"), "gone.mp4")
    unread = Failure("VideoError", "no such file")
    broken = Failure("ZeroDivisionError", f"division by zero {HOSTILE}", 2, f"ZeroDivisionError: {HOSTILE}")
    bad = "def execute_command(video, question):\n    return 1 / 0  # " + HOSTILE.replace("\u2028", "")
    hints = Call("get_subtitle_hints", {"question": HOSTILE}, f"'{HOSTILE}'", line=2)
    failing = Execution("failed", error=broken, calls=(hints,))
    attempt = Round("plan", f"<planning>{HOSTILE}</planning><code>{bad}</code>", bad, failing, "program")
    given, choices = (Answer(None, 0.0, {}, ""),) * 2, (HOSTILE, "b", "c", "d")
    return [
        trace("right", video, "Which is shown?", *direct("A", 0.95), family="gist"),
        trace("wrong", video, "Which is shown now?", *direct("C", 0.6)),
        refined(video),
        trace("unread", lost, "What is it?", *direct(None, 0.0, "Hm"), family="gist"),
        trace("missing", gone, "Who is there?", (), None, None, selected=None, error=unread),
        trace(f"hostile/{HOSTILE}", video, f"Is it {HOSTILE}?", (attempt,), *given, choices=choices),
    ]


def write_run(folder: Path, some: list[Trace], method: str = "videopro") -> RunFolder:
    """A run's folder with these traces."""
    run = RunFolder(folder)
    run.open({"benchmark": "made", "split": "test", "method": method, "model": "none"}, IDENTITY)
    log = TraceLog(run.traces)
    for trace in some:
        log.append(replace(trace, run_key=run_key(IDENTITY)))
    log.close()
    return run
