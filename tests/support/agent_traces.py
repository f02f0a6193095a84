"""Hand-made traces of agents, one of each method, as their papers' cases go: not results.

They are about the pocket video of `tests.support.agent_steps`, or any of its length: the times are given, and
the texts are what models might say of it. Which branches each trace holds is in its docstring.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.support.agent_steps import CHOICES, DURATION, QUESTION, asked, look, tool, trace
from tests.support.view_world import HOSTILE
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


def parts(name: str) -> tuple[Segment, ...]:
    """The parts of a segment, split at six uniform frames."""
    prefix = f"{name}." if name else ""
    return tuple(segment(f"{prefix}{place}") for place in range(7))


def vca(video: VideoRef) -> Trace:
    """Backtracking; an eviction in each later round; a repaired choice; constrained scores. The answer
    is part of the last choice, so that it has no confidence."""
    steps: list[Step] = []
    memory: dict[float, float] = {}
    numbers: dict[str, int] = {}
    for turn, name in enumerate(("", *PICKS)):
        found = parts(name)
        # Prompts name segments in the order in which they were made.
        numbers |= {part.name: len(numbers) + place for place, part in enumerate(found)}
        times = [round(part.end, 3) for part in found[:-1]]
        listed = [f"{numbers[part.name]}: {part.start:.1f}-{part.end:.1f} s" for part in found]
        steps.append(
            asked(
                "reward",
                "llm",
                {str(numbers[part.name]): {"why": part.text, "score": part.score} for part in found},
                turn,
                prompt="\n".join([f"Score the parts for: {QUESTION}", *listed]),
                frames=look(*times),
                segments=found,
                is_constrained=True,
            )
        )
        for time, before, after in zip(times, found, found[1:], strict=False):
            memory[time] = max(before.score or 0.0, after.score or 0.0)
        dropped = sorted(sorted(memory, key=lambda time: memory[time])[: max(0, len(memory) - 8)])
        if dropped:
            args = {"capacity": 8, "times": dropped, "relevance": [memory[time] for time in dropped]}
            named = ", ".join(f"{time:.1f} s" for time in dropped)
            steps.append(tool("evict", f"dropped the frames at {named}", turn, args=args))
        memory = {time: score for time, score in memory.items() if time not in dropped}
        is_last = turn == len(PICKS)
        steps.append(
            asked(
                "explore",
                "llm",
                {"answer": "A"} if is_last else {"segment": numbers[PICKS[turn]]},
                turn,
                frames=look(*sorted(memory)),
                segments=() if is_last else (segment(PICKS[turn]),),
                rejected=("I would look at the beginning.",) if turn == 1 else (),
                faults=("there is no JSON object in the reply",) if turn == 1 else (),
            )
        )
    return trace("vca", video, steps, Answer("A", raw="A"), notes=("no subtitles",))


# ---- Deep Video Discovery: browse, search, inspect, answer -----------------------------------------------


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """The parsed reply of a model that calls a tool."""
    return {"calls": [{"name": name, "arguments": json.dumps(arguments)}]}


def dvd(video: VideoRef) -> Trace:
    """All tools, called natively and once as text; a mistake that goes back to the model; a browse that an
    earlier question has paid; a database that all questions share."""
    sign = "What does the sign at the farm say?"
    inspected = (57.75, 59.5, 61.5, 63.25, 65.0, 66.5)
    clips = (
        (55.0, 60.0, 0.81),
        (60.0, 65.0, 0.78),
        (65.0, 70.0, 0.52),
        (80.0, 85.0, 0.44),
        (165.0, 170.0, 0.31),
    )
    found = tuple(
        Segment(start, end, score=score, text="a yellow box circles at a farm" if score > 0.5 else "a castle")
        for start, end, score in clips
    )
    query, bad = (
        {"query": "a sign at a farm", "top_k": 5},
        {"question": sign, "time_ranges": [[300.0, 310.0]]},
    )
    good = {"question": sign, "time_ranges": [[57.25, 66.75]]}
    steps = [
        asked(
            "act",
            "llm",
            "First an overview." + json.dumps(called("global_browse")),
            parsed=called("global_browse", query=sign),
        ),
        asked(
            "global_browse",
            "vqa",
            "The video changes between a stadium, a library, a farm and a station.",
            args={"query": sign},
            frames=look(*(DURATION * (place + 0.5) / 16 for place in range(16))),
            result="subjects: a black ball, a yellow box\nevents: a farm is shown once, after the stadium",
            is_reused=True,
        ),
        asked("act", "llm", "", 1, prompt="subjects: a black ball", parsed=called("clip_search", **query)),
        tool(
            "clip_search",
            "\n".join(f"[{s.start:.0f} s] {s.text}" for s in found),
            1,
            args=query,
            segments=found,
        ),
        asked("act", "llm", "", 2, prompt="[55 s] a yellow box", parsed=called("frame_inspect", **bad)),
        tool("mistake", "300 to 310 s is outside the video (250.2 s)", 2, args={"tool": "frame_inspect"}),
        asked("act", "llm", {"reason": "It is earlier.", "tool": "frame_inspect", "arguments": good}, 3),
        asked(
            "frame_inspect",
            "vqa",
            "A sign at the left reads CAFE.",
            3,
            args=good,
            frames=look(*inspected),
            segments=(Segment(57.25, 66.75),),
        ),
        asked("act", "llm", "The sign says CAFE.", 4, prompt="CAFE", parsed=called("answer", text="A")),
        tool("answer", "A", -1, args={"text": "A"}),
    ]
    made = Preparation("database", "dvd/medium_000", Cost(61.5, {"captioner": 55.0}, 501, 52, 41_000, 6_100))
    return trace(
        "dvd",
        video,
        steps,
        Answer("A", raw="A"),
        question=sign,
        choices=("CAFE", "RADIO", "BANK", "TOYS"),
        evidence=((57.25, 66.75),),
        prepared=(made,),
    )


# ---- LVAgent: three agents in two rounds -----------------------------------------------------------------

AGENTS = ("qwen2-vl-7b", "internvl2.5-7b", "llava-video-7b")
"""The third loses the first round and leaves."""
LETTERS = ("A", "A", "C")


def lvagent(video: VideoRef) -> Trace:
    """A disagreement in the first round: reasons, scores (those of one agent are unparsed), one agent leaves;
    two agents agree in the second. One sees the whole video, as its reply is neither Yes nor No."""
    steps = [step for name, letter in zip(AGENTS, LETTERS, strict=True) for step in turn_of(name, letter, 0)]
    steps += [
        asked("reason", name, f"The frames show {CHOICES['ABCD'.index(letter)]}.")
        for name, letter in zip(AGENTS, LETTERS, strict=True)
    ]
    steps += [
        asked("score", AGENTS[0], {"1": 9, "2": 8, "3": 3}),
        asked("score", AGENTS[1], {"1": 9, "2": 9, "3": 3}),
    ]
    steps.append(
        asked(
            "score",
            AGENTS[2],
            "They are all good.",
            rejected=('{"1": 11, "2": 7, "3": 8}',),
            faults=("1: Input should be less than or equal to 10", "there is no JSON object in the reply"),
        )
    )
    steps.append(tool("leave", AGENTS[2], args={"scores": {"1": 18, "2": 17, "3": 6}}))
    steps += [step for name in AGENTS[:2] for step in turn_of(name, "A", 1)]
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
    descriptions = [
        {"segment_id": 1, "description": "a ball in a stadium"},
        {"segment_id": 3, "description": "an empty stadium"},
    ]
    found = (
        Segment(0.0, 25.0, "1", score=0.31, text="a ball in a stadium"),
        Segment(75.0, 125.0, "3", score=0.24, text="an empty stadium"),
    )
    unread: dict[str, Any] = {
        "raw": "The answer is the ball, I am sure: {final_answer",
        "parsed": None,
        "rejected": ("It is the ball.",),
        "faults": ("there is no JSON object in the reply", "not valid JSON"),
    }
    steps = [
        *(asked("caption", "captioner", f"a place at {time:.0f} s", frames=look(time)) for time in first),
        asked("predict", "llm", {"final_answer": "B"}, is_constrained=True),
        asked("reflect", "llm", {"confidence": 1}, is_constrained=True),
        asked("search", "llm", {"frame_descriptions": descriptions}, is_constrained=True),
        tool("retrieve", "3.2 s, 110.5 s", segments=found, frames=look(*more)),
        *(
            asked("caption", "captioner", f"a black ball at {time:.0f} s", 1, frames=look(time))
            for time in more
        ),
        asked("predict", "llm", {"final_answer": "A"}, 1, **({} if is_read else unread)),
        *([asked("reflect", "llm", {"confidence": 3}, 1)] if is_read else []),
    ]
    index = Preparation("index", "clips/medium_000", Cost(2.5, {"encoder": 2.0}, 251))
    name, answer = (
        ("videoagent", Answer("A", raw="A")) if is_read else ("unparsed", Answer(raw=unread["raw"]))
    )
    return trace(name, video, steps, answer, claim=1.0 if is_read else None, prepared=(index,))


def failed(video: VideoRef) -> Trace:
    """A server that is gone in the middle: its steps are kept."""
    whole = videoagent(video)
    steps = whole.steps[:6]
    error = Failure("BackboneError", "llm: the server at http://host/v1 is gone")
    execution = Execution("failed", steps=steps, cost=Cost(3.0))
    return replace(
        whole,
        question_id="failed",
        rounds=(Round(AGENT, "", execution=execution),),
        first=None,
        final=None,
        selected=None,
        official=None,
        error=error,
    )


def traces(video: VideoRef) -> list[Trace]:
    """One of each method, one with an unparsed answer, and one that failed."""
    return [
        vca(video),
        dvd(video),
        lvagent(video),
        videoagent(video),
        videoagent(video, is_read=False),
        failed(video),
    ]


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


def long(video: VideoRef) -> Trace:
    """Many steps, segments and lines."""
    found = tuple(Segment(9.0 * n, 9.0 * n + 9, str(n), score=n / 40) for n in range(20))
    steps = [asked("think", "llm", "\n".join(f"line {n}" for n in range(60)))]
    steps += [tool(f"search {n}", "20 found", n, segments=found, args={"n": n}) for n in range(30)]
    return trace("long", video, steps, Answer("B", raw="B"))
