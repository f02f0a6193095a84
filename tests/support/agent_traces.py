"""Hand-made traces of agents, one of each method, as their papers' cases go: not results.

They are about a pocket video, or any of its length: the times are given, and the texts are what models might
say of it. Which branches each trace holds is in its docstring.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from tests.support import view_world as world
from tests.support.view_world import HOSTILE
from videopro.pocket import drawing
from videopro.question import Answer
from videopro.traces import (
    AGENT,
    Cost,
    Execution,
    Failure,
    Preparation,
    Round,
    Segment,
    Step,
    Trace,
    VideoRef,
)

# ---- the parts of a trace -------------------------------------------------------------------------------

DURATION = 250.25
"""The length of pocket's video "medium_000" of the split "val", in s."""


def look(*times: float) -> tuple[tuple[float, ...], ...]:
    """References to the whole frames at these times (s)."""
    return tuple((time, float(drawing.HEIGHT), float(drawing.WIDTH)) for time in times)


def asked(kind: str, model: str, reply: Mapping[str, Any] | str, round: int = 0, **facts: Any) -> Step:
    """A request: a structured reply, or words. Its cost grows with its frames."""
    raw = reply if isinstance(reply, str) else json.dumps(reply)
    seen = len(facts.get("frames", ()))
    cost = Cost(0.4 + 0.05 * seen, {model: 0.4 + 0.03 * seen}, seen, 1, 120 + 64 * seen, len(raw.split()))
    step = Step(kind, model, round, f"{kind}: {QUESTION}", raw=raw, cost=cost)
    return replace(step, **{"parsed": None if isinstance(reply, str) else reply, **facts})


def tool(kind: str, result: str, round: int = 0, **facts: Any) -> Step:
    """A tool that asks no model."""
    return Step(kind, round=round, result=result, cost=Cost(0.02), **facts)


QUESTION = "What moves through the stadium at the beginning?"
CHOICES = ("a black ball", "a green triangle", "a white box", "a red ball")


def trace(
    name: str,
    video: VideoRef,
    steps: Sequence[Step],
    answer: Answer,
    claim: float | None = None,
    **changes: Any,
) -> Trace:
    """The trace of a question that one agent answered."""
    cost = sum((step.cost for step in steps if not step.is_reused), Cost())
    status: Literal["ok", "empty"] = "ok" if answer.letter is not None else "empty"
    execution = Execution(status, answer, claim, cost=cost, steps=tuple(steps))
    rounds = (Round(AGENT, answer.raw, execution=execution),)
    about = {"question": QUESTION, "choices": CHOICES, "evidence": ((0.0, 16.5),)}
    about |= {
        "groups": {"family": "attribute", "length": "medium"},
        "cost": cost + Cost(0.3, {"decode": 0.3}),
    }
    return world.trace(name, video, **{**about, **changes}, rounds=rounds, first=answer, final=answer)


# ---- VCA: the trajectory of its Fig. 4 -------------------------------------------------------------------

SCORES: dict[str, tuple[int, ...]] = {
    "": (35, 40, 20, 75, 30, 10, 15),
    "3": (5, 10, 10, 15, 20, 10, 5),
    "0": (30, 90, 80, 60, 40, 20, 10),
    "0.2": (70, 75, 80, 95, 90, 60, 60),
}
"""The scores of the parts of each explored segment; "": the whole video."""
PICKS = ("3", "0", "0.2")
"""Fig. 4: the best segment, the fourth, proves to be irrelevant; the agent turns back to the first, and then
takes its third part, although the second has the highest score."""


def span(name: str) -> tuple[float, float]:
    """(start, end) in s of a segment of the tree."""
    start, end = 0.0, DURATION
    for place in map(int, name.split(".") if name else ()):
        length = (end - start) / 7
        start, end = start + length * place, start + length * (place + 1)
    return start, end


def segment(name: str) -> Segment:
    """A scored part of the tree."""
    parent, _, place = name.rpartition(".")
    score = SCORES[parent][int(place)]
    text = "something is in the stadium" if score >= 60 else "little that helps"
    return Segment(*span(name), name, parent, float(score), text)


def vca(video: VideoRef) -> Trace:
    """Backtracking; an eviction in each later round; a repaired choice; constrained scores. The answer
    is part of the last choice, so that it has no confidence."""
    steps: list[Step] = []
    memory: dict[float, float] = {}
    numbers: dict[str, int] = {}
    for turn, name in enumerate(("", *PICKS)):
        found = tuple(segment(f"{name}.{place}".lstrip(".")) for place in range(7))
        # Prompts name segments in the order in which they were made.
        numbers |= {part.name: len(numbers) + place for place, part in enumerate(found)}
        times = [round(part.end, 3) for part in found[:-1]]
        listed = [f"{numbers[part.name]}: {part.start:.1f}-{part.end:.1f} s" for part in found]
        given = {str(numbers[part.name]): {"why": part.text, "score": part.score} for part in found}
        prompt = "\n".join([f"Score the parts for: {QUESTION}", *listed])
        seen: dict[str, Any] = {"frames": look(*times), "segments": found, "is_constrained": True}
        steps.append(asked("reward", "llm", given, turn, prompt=prompt, **seen))
        for time, before, after in zip(times, found, found[1:], strict=False):
            memory[time] = max(before.score or 0.0, after.score or 0.0)
        dropped = sorted(sorted(memory, key=lambda time: memory[time])[: max(0, len(memory) - 8)])
        if dropped:
            args = {"capacity": 8, "times": dropped, "relevance": [memory[time] for time in dropped]}
            named = ", ".join(f"{time:.1f} s" for time in dropped)
            steps.append(tool("evict", f"dropped the frames at {named}", turn, args=args))
        memory = {time: score for time, score in memory.items() if time not in dropped}
        chosen: dict[str, Any] = {"answer": "A"}
        more: dict[str, Any] = {"frames": look(*sorted(memory))}
        if turn < len(PICKS):
            chosen = {"segment": numbers[PICKS[turn]]}
            more["segments"] = (segment(PICKS[turn]),)
        if turn == 1:
            more["rejected"] = ("I would look at the beginning.",)
            more["faults"] = ("there is no JSON object in the reply",)
        steps.append(asked("explore", "llm", chosen, turn, **more))
    return trace("vca", video, steps, Answer("A", raw="A"), notes=("no subtitles",))


# ---- Deep Video Discovery: browse, search, inspect, answer -----------------------------------------------


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """The parsed reply of a model that calls a tool."""
    return {"calls": [{"name": name, "arguments": json.dumps(arguments)}]}


def dvd(video: VideoRef) -> Trace:
    """All tools, called natively and once as text; a mistake that goes back to the model; a browse that an
    earlier question has paid; a database that all questions share."""
    sign = "What does the sign at the farm say?"
    scores = {55.0: 0.81, 60.0: 0.78, 65.0: 0.52, 80.0: 0.44, 165.0: 0.31}
    found = tuple(
        Segment(at, at + 5, score=score, text="a yellow box circles at a farm" if score > 0.5 else "a castle")
        for at, score in scores.items()
    )
    browse = called("global_browse", query=sign)
    query = {"query": "a sign at a farm", "top_k": 5}
    bad = {"question": sign, "time_ranges": [[300.0, 310.0]]}
    good = {"question": sign, "time_ranges": [[57.25, 66.75]]}
    changes = "The video changes between a stadium, a library, a farm and a station."
    events = "subjects: a black ball, a yellow box\nevents: a farm is shown once, after the stadium"
    browsed = {"frames": look(*(DURATION * (place + 0.5) / 16 for place in range(16))), "result": events}
    inspected = {"frames": look(57.75, 59.5, 61.5, 63.25, 65.0, 66.5), "segments": (Segment(57.25, 66.75),)}
    listed = "\n".join(f"[{clip.start:.0f} s] {clip.text}" for clip in found)
    steps = [
        asked("act", "llm", "First an overview." + json.dumps(called("global_browse")), parsed=browse),
        asked("global_browse", "vqa", changes, args={"query": sign}, is_reused=True, **browsed),
        asked("act", "llm", "", 1, prompt="subjects: a black ball", parsed=called("clip_search", **query)),
        tool("clip_search", listed, 1, args=query, segments=found),
        asked("act", "llm", "", 2, prompt="[55 s] a yellow box", parsed=called("frame_inspect", **bad)),
        tool("mistake", "300 to 310 s is outside the video (250.2 s)", 2, args={"tool": "frame_inspect"}),
        asked("act", "llm", {"reason": "It is earlier.", "tool": "frame_inspect", "arguments": good}, 3),
        asked("frame_inspect", "vqa", "A sign at the left reads CAFE.", 3, args=good, **inspected),
        asked("act", "llm", "The sign says CAFE.", 4, prompt="CAFE", parsed=called("answer", text="A")),
        tool("answer", "A", -1, args={"text": "A"}),
    ]
    made = Preparation("database", "dvd/medium_000", Cost(61.5, {"captioner": 55.0}, 501, 52, 41_000, 6_100))
    about = {"question": sign, "choices": ("CAFE", "RADIO", "BANK", "TOYS"), "evidence": ((57.25, 66.75),)}
    return trace("dvd", video, steps, Answer("A", raw="A"), prepared=(made,), **about)


# ---- LVAgent: three agents in two rounds -----------------------------------------------------------------

AGENTS = ("qwen2-vl-7b", "internvl2.5-7b", "llava-video-7b")
"""The third loses the first round and leaves."""
LETTERS = ("A", "A", "C")


def lvagent(video: VideoRef) -> Trace:
    """A disagreement in the first round: reasons, scores (those of one agent are unparsed), one agent leaves;
    two agents agree in the second. One sees the whole video, as its reply is neither Yes nor No."""
    voted = list(zip(AGENTS, LETTERS, strict=True))
    said = ('{"1": 11, "2": 7, "3": 8}',)
    faults = ("1: Input should be less than or equal to 10", "there is no JSON object in the reply")
    steps = [
        *(step for name, letter in voted for step in turn_of(name, letter, 0)),
        *(asked("reason", name, f"It shows {CHOICES['ABCD'.index(letter)]}.") for name, letter in voted),
        asked("score", AGENTS[0], {"1": 9, "2": 8, "3": 3}),
        asked("score", AGENTS[1], {"1": 9, "2": 9, "3": 3}),
        asked("score", AGENTS[2], "They are all good.", rejected=said, faults=faults),
        tool("leave", AGENTS[2], args={"scores": {"1": 18, "2": 17, "3": 6}}),
        *(step for name in AGENTS[:2] for step in turn_of(name, "A", 1)),
    ]
    chunks = Preparation("index", "clips/medium_000", Cost(2.5, {"encoder": 2.0}, 96))
    selection = Preparation("selection", "made/all/5 agents", Cost(95.0, {}, 7200, 450, 460_000, 450), False)
    answer = Answer("A", 0.9, {"A": 0.9, "B": 0.04, "C": 0.04, "D": 0.02}, "A")
    return trace("lvagent", video, steps, answer, prepared=(chunks, selection))


def turn_of(name: str, letter: str, round: int) -> list[Step]:
    """What an agent does in a round: its perception, and its answer from 16 frames."""
    whole = name == AGENTS[2]
    said = {"letter": None if whole else "No", "confidence": 0.0 if whole else 0.8}
    glance = look(12.0, 71.0, 130.5, 201.0)
    steps = [asked("whole", name, "Perhaps" if whole else "No", round, parsed=said, frames=glance)]
    if not whole:
        length = DURATION / 6
        chunks = tuple(
            Segment(length * place, length * (place + 1), str(place), score=score)
            for place, score in enumerate((0.83, 0.31, 0.47, 0.52, 0.2, 0.44))
        )
        key = "a ball in a stadium"
        steps.append(asked("key", name, key, round, frames=glance))
        steps.append(tool("retrieve", "0", round, args={"agent": name, "key": key}, segments=chunks))
    start, step = (0.0, DURATION / 16) if whole else (3.0 * AGENTS.index(name), 2.3)
    times = [start + step * (place + 0.5) for place in range(16)]
    sure = {"letter": letter, "confidence": 0.9 if letter == "A" else 0.55}
    return [*steps, asked("answer", name, letter, round, parsed=sure, frames=look(*times))]


# ---- VideoAgent: what is missing is found in the second round --------------------------------------------


def videoagent(video: VideoRef, *, is_read: bool = True) -> Trace:
    """Five first frames; partial confidence; two searches in their segments; then sure. With `is_read` off,
    the last prediction cannot be parsed, and there is no answer."""
    first, more = (25.0, 75.0, 125.0, 175.0, 225.0), (3.25, 110.5)
    found = (
        Segment(0.0, 25.0, "1", score=0.31, text="a ball in a stadium"),
        Segment(75.0, 125.0, "3", score=0.24, text="an empty stadium"),
    )
    descriptions = [{"segment_id": int(part.name), "description": part.text} for part in found]
    unread: dict[str, Any] = {
        "raw": "The answer is the ball, I am sure: {final_answer",
        "parsed": None,
        "rejected": ("It is the ball.",),
        "faults": ("there is no JSON object in the reply", "not valid JSON"),
    }
    seen = [asked("caption", "captioner", f"a place at {at:.0f} s", frames=look(at)) for at in first]
    again = [asked("caption", "captioner", f"a ball at {at:.0f} s", 1, frames=look(at)) for at in more]
    steps = [
        *seen,
        asked("predict", "llm", {"final_answer": "B"}, is_constrained=True),
        asked("reflect", "llm", {"confidence": 1}, is_constrained=True),
        asked("search", "llm", {"frame_descriptions": descriptions}, is_constrained=True),
        tool("retrieve", "3.2 s, 110.5 s", segments=found, frames=look(*more)),
        *again,
        asked("predict", "llm", {"final_answer": "A"}, 1, **({} if is_read else unread)),
        *([asked("reflect", "llm", {"confidence": 3}, 1)] if is_read else []),
    ]
    index = Preparation("index", "clips/medium_000", Cost(2.5, {"encoder": 2.0}, 251))
    if is_read:
        return trace("videoagent", video, steps, Answer("A", raw="A"), claim=1.0, prepared=(index,))
    return trace("unparsed", video, steps, Answer(raw=unread["raw"]), prepared=(index,))


def failed(video: VideoRef) -> Trace:
    """A server that is gone in the middle: its steps are kept."""
    whole = videoagent(video)
    error = Failure("BackboneError", "llm: the server at http://host/v1 is gone")
    execution = Execution("failed", steps=whole.steps[:6], cost=Cost(3.0))
    nothing: dict[str, Any] = dict.fromkeys(("first", "final", "selected", "official"))
    rounds = (Round(AGENT, "", execution=execution),)
    return replace(whole, question_id="failed", rounds=rounds, error=error, **nothing)


def traces(video: VideoRef) -> list[Trace]:
    """One of each method, one with an unparsed answer, and one that failed."""
    of_methods = [make(video) for make in (vca, dvd, lvagent, videoagent)]
    return [*of_methods, videoagent(video, is_read=False), failed(video)]


# ---- what a page has to stand ----------------------------------------------------------------------------


def hostile(video: VideoRef) -> Trace:
    """Texts that would break a page that took them for markup, in every field of a step."""
    known = Segment(0.0, 9.0, HOSTILE, score=3.0, text=HOSTILE)
    both = {"prompt": HOSTILE, "raw": HOSTILE, "segments": (known, replace(known, parent=HOSTILE, name="b"))}
    steps = [
        asked(HOSTILE, HOSTILE, {HOSTILE: {HOSTILE: [HOSTILE]}}, args={HOSTILE: HOSTILE}),
        asked("score", HOSTILE, {HOSTILE: HOSTILE}, frames=look(3.0), **both),
        asked("score", "other", HOSTILE, rejected=(HOSTILE,), faults=(HOSTILE, HOSTILE)),
        asked("call", "other", "", parsed={"calls": [{"name": HOSTILE, "arguments": HOSTILE}]}),
        tool(HOSTILE, HOSTILE, args={"agent": HOSTILE}),
    ]
    made = Preparation(HOSTILE, HOSTILE)
    return trace("hostile", video, steps, Answer(raw=HOSTILE), prepared=(made,), notes=(HOSTILE,))
