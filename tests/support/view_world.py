"""A run for tests of the viewer: six questions with everything that a page shows, about a small video, and
two that are missing; texts that would break a page that took them for markup.

The first video's pictures carry their own number (`tests.support.making_videos`), so that what a thumbnail
shows can be read back from its pixels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.making_videos import make
from videopro.benchmarks.base import ROBUST, Protocol
from videopro.question import Answer
from videopro.report.pages.content import StoredPrompts
from videopro.runs import RunFolder, run_key
from videopro.traces import SCHEMA, Call, Cost, Execution, Failure, Round, Trace, TraceLog, VideoRef

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
    return Execution(
        "ok" if given.letter else "empty",
        given,
        calls=calls,
        cost=Cost(seconds, {"backbone": seconds / 2}, 4, 1, 300, 1),
    )


def at(number: int) -> float:
    """The time of a picture of the video, in s."""
    return number / RATE


def whole(number: int) -> tuple[float, ...]:
    return (at(number), 64.0, 128.0)


def refined(video: VideoRef) -> Trace:
    """Wrong at first, set right by a refinement that crops."""
    part = (at(9), 64.0, 128.0, 0.25, 0.25, 0.75, 0.75)
    before, after = reply("B", 0.4), reply("A", 0.9)
    looked = tuple(whole(number) for number in (8, 9, 10, 11))
    clips = "([(2, 3)], [Clip(2.0-3.0 s)])"
    first = execution(
        before,
        Call(
            "get_informative_clips",
            {"video": "Video(20.0 s)", "query": "kite"},
            clips,
            (),
            0.1,
            False,
            ((4.0, 5.0),),
            2,
        ),
        Call(
            "extract_frames",
            {"video": "Clip(4.0-5.0 s)", "num_frames": 4},
            "[Frame(2.00 s)]",
            (),
            0.0,
            line=3,
        ),
        Call(
            "query_mc",
            {"frames": "[4 frames, 2.00-2.75 s]"},
            "Answer('B', confidence 0.400)",
            looked,
            0.5,
            line=4,
        ),
    )
    found = [
        Call(
            "detect_object", {"frame": f"Frame({at(n):.2f} s)", "text": "kite"}, box, (whole(n),), 0.2, line=6
        )
        for n, box in zip(
            (8, 9, 10, 11),
            ("[]", "[Box(32, 16, 96, 48, 'kite', score 0.81)]", "[]", "[]"),
            strict=True,
        )
    ]
    second = execution(
        after,
        Call(
            "get_informative_clips",
            {"video": "Video(20.0 s)", "query": "red kite"},
            clips,
            (),
            0.1,
            True,
            ((2.0, 3.0),),
            2,
        ),
        Call(
            "extract_frames",
            {"video": "Clip(2.0-3.0 s)", "num_frames": 4},
            "[Frame(2.00 s)]",
            (),
            0.0,
            line=3,
        ),
        *found,
        Call("crop", {"frame": "Frame(2.25 s)"}, "Frame(2.25 s, part 32,16,96,48)", (), 0.0, line=7),
        Call(
            "get_informative_subtitles",
            {"query": "kite"},
            "[Line(2.0-3.0 s, 'See the kite fly.')]",
            (),
            0.1,
            False,
            ((2.0, 3.0),),
            8,
        ),
        Call(
            "query_mc",
            {"frames": "[Frame(2.25 s, part 32,16,96,48)]"},
            "Answer('A', confidence 0.900)",
            (part,),
            0.5,
            line=9,
        ),
    )
    rounds = (
        Round(
            "plan",
            f"<planning>\nLook for the kite.\n</planning>\n<code>\n{FIRST}\n</code>",
            FIRST,
            first,
            "program",
        ),
        Round(
            "program_refinement",
            f"<planning>\nCut it out.\n</planning>\n<code>\n{SECOND}\n</code>",
            SECOND,
            second,
            "program",
        ),
    )
    return trace(
        "refined",
        video,
        "What flies over the hill?",
        rounds,
        before,
        after,
        refined=1,
        selected=1,
        evidence=((2.0, 3.0),),
    )


def trace(
    id: str,
    video: VideoRef,
    question: str,
    rounds: tuple[Round, ...],
    first: Answer | None,
    final: Answer | None,
    *,
    gold: str | None = "A",
    choices: tuple[str, ...] = CHOICES,
    family: str = "attribute",
    refined: int = 0,
    selected: int | None = 0,
    error: Failure | None = None,
    evidence: tuple[tuple[float, ...], ...] = (),
) -> Trace:
    return Trace(
        schema=SCHEMA,
        run_key=run_key(IDENTITY),
        question_id=id,
        video=video,
        question=question,
        choices=choices,
        gold=gold,
        groups={"family": family, "duration": "short"},
        rounds=rounds,
        first=first,
        final=final,
        selected=selected,
        refined=refined,
        official=final.letter if final else None,
        error=error,
        cost=Cost(3.0, {}, 8, 2, 600, 40),
        versions={"videopro": "0"},
        evidence=evidence,
    )


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
    broken = Failure("ZeroDivisionError", f"division by zero {HOSTILE}", 2, f"ZeroDivisionError: {HOSTILE}")
    bad = "def execute_command(video, question):\n    return 1 / 0  # " + HOSTILE.replace("\u2028", "")
    failing = Execution(
        "failed",
        error=broken,
        calls=(Call("get_subtitle_hints", {"question": HOSTILE}, f"'{HOSTILE}'", line=2),),
    )
    unparsed = Answer(None, 0.0, {}, "")
    return [
        trace("right", video, "Which is shown?", *direct("A", 0.95), family="gist"),
        trace("wrong", video, "Which is shown now?", *direct("C", 0.6)),
        refined(video),
        trace("unread", lost, "What is it?", *direct(None, 0.0, "Hm"), family="gist"),
        trace(
            "missing",
            gone,
            "Who is there?",
            (),
            None,
            None,
            selected=None,
            error=Failure("VideoError", "no such file"),
        ),
        trace(
            f"hostile/{HOSTILE}",
            video,
            f"Is it {HOSTILE}?",
            (Round("plan", f"<planning>{HOSTILE}</planning><code>{bad}</code>", bad, failing, "program"),),
            unparsed,
            unparsed,
            choices=(HOSTILE, "b", "c", "d"),
        ),
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
