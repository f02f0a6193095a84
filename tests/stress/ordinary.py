"""Ordinary programs and their world: host objects, functions that answer by rule, the prelude of an answer.

What a program sees of it in the sandbox must equal what it sees of it in plain CPython: `natively` runs a
program that we wrote ourselves in this process, as the reference.
"""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from videopro.executor import use_frames


class HostObject:
    """A host object with declared fields."""

    __program_fields__: tuple[str, ...] = ()

    def __init__(self, *values: Any) -> None:
        for name, value in zip(self.__program_fields__, values, strict=True):
            setattr(self, name, value)
        self.secret = "weights"


class Video(HostObject):
    __program_fields__ = ("duration",)


class Clip(HostObject):
    __program_fields__ = ("start", "end")
    start: float
    end: float


class Frame(HostObject):
    __program_fields__ = ("timestamp", "width", "height")
    timestamp: float


class AnswerOnHost(HostObject):
    """An answer as the model's library might make it; in the sandbox `PRELUDE` gives it its behaviour."""

    __program_kind__ = "Answer"
    __program_fields__ = ("answer", "confidence")
    answer: str
    confidence: float

    def __iter__(self) -> Any:
        return iter((self.answer, self.confidence))

    def __getitem__(self, key: Any) -> Any:
        return {"answer": self.answer, "confidence": self.confidence}[key]

    def __eq__(self, other: object) -> bool:
        return self.answer == other if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return self.answer


PRELUDE = """
class Answer(Handle):
    def __iter__(self):
        return iter((self.answer, self.confidence))

    def __getitem__(self, key):
        return {"answer": self.answer, "confidence": self.confidence}[key]

    def __eq__(self, other):
        return self.answer == other if isinstance(other, str) else Handle.__eq__(self, other)

    __hash__ = Handle.__hash__

    def __str__(self):
        return self.answer
"""


class EmptyRetrieval(LookupError):
    """Nothing was found."""


class World:
    """One video of 100 s in ten clips, with a red kite in the third and a sign in the seventh."""

    def __init__(self) -> None:
        self.video = Video(100.0)
        self.clips = [Clip(10.0 * n, 10.0 * n + 10) for n in range(10)]
        self.frames = {t: Frame(float(t), 64, 48) for t in range(100)}
        self.calls: list[str] = []

    def functions(self) -> dict[str, Callable[..., Any]]:
        """What a program may call."""
        functions = (
            self.get_informative_clips,
            self.extract_frames,
            self.query_mc,
            self.query_yn,
            self.query_native,
            self.run_ocr,
            self.detect_object,
            self.get_subtitle_hints,
        )
        return {function.__name__: function for function in functions}

    def inputs(self) -> dict[str, Any]:
        """What its function takes, under either signature."""
        return {
            "video": self.video,
            "video_path": self.video,
            "question": "What is written on the sign?",
            "choices": ["STOP", "EXIT", "42 km"],
            "duration": 100.0,
        }

    def get_informative_clips(
        self, video: Video, query: str, top_k: int = 3, total_duration: float | None = None
    ) -> tuple[list[tuple[float, float]], list[Clip]]:
        self.calls.append("get_informative_clips")
        if video is not self.video:
            raise TypeError("video must be the video")
        numbers = {"kite": [2, 3], "sign": [6, 7]}
        matches = next((n for word, n in numbers.items() if word in query), None)
        if matches is None:
            raise EmptyRetrieval(f"no clip shows {query!r}")
        clips = [self.clips[n] for n in matches[:top_k]]
        return [(clip.start, clip.end) for clip in clips], clips

    def extract_frames(self, video: Any, num_frames: int = 4) -> list[Frame]:
        self.calls.append("extract_frames")
        use_frames(num_frames)  # As a real module does: before the work, or 10**30 frames would be made.
        start, end = (0.0, 100.0) if video is self.video else (video.start, video.end)
        return [self.frames[int(start + (end - start) * n / num_frames)] for n in range(num_frames)]

    def query_mc(self, frames: list[Frame], question: str, choices: list[str]) -> AnswerOnHost:
        self.calls.append("query_mc")
        seen = any(60 <= frame.timestamp < 70 for frame in frames)
        return AnswerOnHost("C" if seen else "A", 0.9 if seen else 0.4)

    def query_yn(self, frame: Frame, question: str) -> AnswerOnHost:
        self.calls.append("query_yn")
        return AnswerOnHost("Yes" if "kite" in question and 20 <= frame.timestamp < 30 else "No", 0.8)

    def query_native(self, video: Video, question: str, choices: list[str]) -> AnswerOnHost:
        self.calls.append("query_native")
        return AnswerOnHost("B", 0.5)

    def run_ocr(self, frame: Frame) -> str:
        self.calls.append("run_ocr")
        return "SPEED 42 km" if 60 <= frame.timestamp < 70 else ""

    def detect_object(self, frame: Frame, text: str, box_threshold: float = 0.5) -> list[dict[str, Any]]:
        self.calls.append("detect_object")
        if text == "kite" and 20 <= frame.timestamp < 30:
            return [{"box": (0.1, 0.2, 0.3, 0.4), "score": 0.75}]
        return []

    def get_subtitle_hints(self, video: Video, question: str, word_number: int = 300) -> str:
        self.calls.append("get_subtitle_hints")
        return "we fly a kite\nthen we drive"


def natively(program: str, world: World) -> Any:
    """What a program returns in plain CPython. Only for programs of our own."""
    inputs = world.inputs()
    space: dict[str, Any] = {"__name__": "__program__", **world.functions(), **inputs}
    exec(compile(program, "<ours>", "exec", dont_inherit=True), space)
    entry = space["execute_command"]
    names = inspect.signature(entry).parameters
    return entry(**{name: value for name, value in inputs.items() if name in names or "rest" in names})


def same(left: Any, right: Any) -> bool:
    """Equal in value and in every type, a named tuple being a tuple."""
    if isinstance(right, tuple):
        right = tuple(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, AnswerOnHost):
        return [*left] == [*right]
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def _body(text: str) -> str:
    return "def execute_command(video, question):\n" + textwrap.indent(textwrap.dedent(text).strip(), "    ")


ORDINARY = {
    "native": "def execute_command(video, question):\n    return query_native(video, question, choices)",
    "release signature": """
def execute_command(video_path, question, choices, duration):
    intervals, clips = get_informative_clips(video_path, "the sign", top_k=2, total_duration=duration)
    frames = []
    for clip in clips:
        frames.extend(extract_frames(clip))
    if not frames:
        frames = extract_frames(video_path, num_frames=64)
    answer, confidence = query_mc(frames, question, choices)
    return answer, round(confidence, 2), intervals""",
    "nested tries": _body("""
        try:
            try:
                intervals, clips = get_informative_clips(video, "a dog")
            except ValueError:
                clips = ["wrong"]
        except LookupError as error:
            clips = []
            message = str(error)
        return clips, message, type(error_of(clips)).__name__
    """)
    + """

def error_of(clips):
    try:
        return clips[0]
    except IndexError as e:
        return e""",
    "lazy any": _body("""
        frames = extract_frames(video, num_frames=20)
        return any(query_yn(f, "is there a kite?") == "Yes" for f in frames)
    """),
    "all of them": _body("""
        frames = extract_frames(video, num_frames=8)
        return all(query_yn(f, "is there a kite?") == "No" for f in frames[:2]), len(frames)
    """),
    "answers": _body("""
        a = query_mc(extract_frames(video), question, choices)
        letter, conf = a
        return a == "A", a["answer"], a["confidence"], a.answer, letter, conf, str(a), f"{a}", a in [a]
    """),
    "an answer is returned": _body(
        "return query_mc(extract_frames(video, num_frames=50), question, choices)"
    ),
    "sorting": _body("""
        frames = extract_frames(video, num_frames=6)
        late = sorted(frames, key=lambda f: (-f.timestamp, f.width))
        return [f.timestamp for f in late], max(frames, key=lambda f: f.timestamp) == late[0]
    """),
    "counting": _body("""
        from collections import Counter, defaultdict
        votes = Counter(query_yn(f, "kite?").answer for f in extract_frames(video, num_frames=10))
        by = defaultdict(list)
        for n, name in enumerate(["a", "b", "a"]):
            by[name].append(n)
        return votes.most_common(1)[0], max(votes, key=votes.get), dict(by)
    """),
    "regular expressions": _body("""
        import re
        texts = [run_ocr(f) for f in extract_frames(video, num_frames=10)]
        found = [m.group(1) for t in texts if (m := re.search(r"(\\d+) km", t))]
        return found, [i for i, c in enumerate(choices) if found and found[0] in c]
    """),
    "boxes": _body("""
        best = None
        for frame in extract_frames(video, num_frames=40):
            for det in detect_object(frame, "kite", box_threshold=0.3):
                x0, y0, x1, y1 = det["box"]
                area = (x1 - x0) * (y1 - y0)
                if best is None or area > best[0]:
                    best = (round(area, 4), frame.timestamp)
        return best
    """),
    "handles as keys": _body("""
        frames = extract_frames(video, num_frames=5)
        seen = {f: n for n, f in enumerate(frames)}
        again = extract_frames(video, num_frames=5)
        return [seen[f] for f in again], len(set(frames + again)), frames[0] is again[0], frames == again
    """),
    "slices and unpacking": _body("""
        frames = extract_frames(video, num_frames=9)
        first, *middle, last = frames
        return [f.timestamp for f in frames[::-2]], len(middle), first.timestamp, frames[-1] == last
    """),
    "generators": _body("""
        def windows(items, size):
            for i in range(0, len(items), size):
                yield items[i : i + size]
        return [[f.timestamp for f in w] for w in windows(extract_frames(video, num_frames=7), 3)]
    """),
    "closures": _body("""
        count = 0
        def tick(by=1, *more, **named):
            nonlocal count
            count += by + sum(more) + len(named)
            return count
        return [tick(), tick(2), tick(1, 2, 3, x=1)], count
    """),
    "classes": _body("""
        from dataclasses import dataclass, field
        @dataclass(order=True)
        class Event:
            time: float
            name: str = "?"
            tags: list = field(default_factory=list)
        class Loud(Event):
            @property
            def shout(self):
                return self.name.upper()
            def __len__(self):
                return len(self.name)
        events = [Event(2.0, "b"), Loud(1.0, "abc")]
        return repr(events[0]), events[1].shout, len(events[1]), Event(1.0) < Event(2.0), events[0].tags
    """),
    "matching": _body("""
        def read(x):
            match x:
                case {"score": float(s)} if s > 0.5:
                    return "sure"
                case [a, *rest]:
                    return a, len(rest)
                case str() as t:
                    return t.title()
                case _:
                    return None
        return [read(v) for v in ({"score": 0.7}, {"score": 0.2}, [1, 2, 3], "kite", 4)]
    """),
    "modules": _body("""
        import math, statistics, json, itertools, functools, heapq, bisect, string, random
        times = [f.timestamp for f in extract_frames(video, num_frames=5)]
        return (
            math.ceil(statistics.mean(times)), statistics.pstdev([1, 3]),
            json.loads(json.dumps({"a": [1.5, None]})),
            list(itertools.combinations("abc", 2)), functools.reduce(lambda a, b: a * b, [1, 2, 3]),
            heapq.nlargest(2, times), bisect.bisect(times, 45.0), string.ascii_uppercase[:3],
            random.Random(3).random(), math.isnan(math.nan), math.inf,
        )
    """),
    "dates and decimals": _body("""
        from datetime import timedelta, datetime
        from decimal import Decimal
        from fractions import Fraction
        at = datetime.strptime("01:02:03", "%H:%M:%S")
        return str(timedelta(seconds=83)), at.minute, str(Decimal("0.1") * 3), str(Fraction(6, 4))
    """),
    "strings": _body("""
        hints = get_subtitle_hints(video, question, word_number=20)
        text = f"{question} Hints: {hints!r:>40}" " and " f"{len(choices):03d} {1/3:.2%} {12345:,}"
        return text, "%s-%5.1f" % ("a", 2.25), "{:<5}|".format("x"), hints.split("\\n")[1], "é".encode()[0]
    """),
    "sets": _body("""
        words = set(get_subtitle_hints(video, question).split())
        return words & {"kite", "we", "dog"}, frozenset([1, 2]), sorted({3, 1} | {2}), {"b", "a"} - {"a"}
    """),
    "numbers": _body("""
        return 7 // 2, -7 % 3, 2 ** 100, divmod(17, 5), round(2.675, 2), 0.1 + 0.2, int("12"), float("1e3")
    """),
    "loops": _body("""
        out = []
        for n in range(10):
            if n % 2:
                continue
            if n > 6:
                break
            out.append(n)
        else:
            out.append("never")
        while out and out[-1] > 2:
            out.pop()
        return out, list(zip(out, "ab", strict=False)), dict(enumerate("xy")), [*reversed(out)]
    """),
    "own errors": _body("""
        class NotThere(ValueError):
            pass
        log = []
        try:
            raise NotThere("nothing") from KeyError("k")
        except NotThere as error:
            log.append((str(error), repr(error.__cause__), type(error).__mro__[1].__name__))
        finally:
            log.append("end")
        return log
    """),
    "context managers": _body("""
        from contextlib import contextmanager, suppress
        log = []
        @contextmanager
        def step(name):
            log.append("+" + name)
            try:
                yield name.upper()
            finally:
                log.append("-" + name)
        with step("a") as a, suppress(ZeroDivisionError):
            log.append(a)
            1 / 0
        return log
    """),
    "enums and tuples": _body("""
        from enum import Enum, IntEnum
        from typing import NamedTuple, Optional
        class Side(Enum):
            LEFT = 1
            RIGHT = 2
        class Span(NamedTuple):
            start: float
            end: Optional[float] = None
        return Side.LEFT.name, Side(2).value, Span(1.0), Span(1.0, 2.0)._replace(end=3.0).end
    """),
    "annotations": """
from typing import List
def pick(frames: List["Frame"], n: int = 2) -> List["Frame"]:
    chosen: List[str] = []
    return frames[:n]

def execute_command(video: "Video", question: str) -> "Answer":
    return [f.timestamp for f in pick(extract_frames(video))]""",
    "global names": """
LIMIT = 3
seen = []
def note(x):
    global LIMIT
    LIMIT -= 1
    seen.append(x)

def execute_command(video, question, extra=5, *, choices, **rest):
    for c in choices:
        note(c)
    return LIMIT, seen, extra, duration == rest["duration"], __name__ == "__main__"
""",
    "attributes that are absent": _body("""
        frame = extract_frames(video)[0]
        return getattr(frame, "colour", "none"), hasattr(frame, "timestamp")
    """),
    "nothing": _body("return None"),
    "blank": _body("return '  '"),
}
"""Programs as planners write them; each must give CPython's own result."""
