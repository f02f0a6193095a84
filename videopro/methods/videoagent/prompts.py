"""The prompts of VideoAgent, in our words. Where the model sees frames, they come before the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from videopro.methods.videoagent.replies import Prediction
from videopro.methods.videoagent.timeline import VideoSegment
from videopro.question import Question, prompts


@dataclass(frozen=True)
class State:
    """What the model knows of the video."""

    duration: float
    """Seconds."""
    times: tuple[float, ...]
    """Seconds of the seen frames, ascending."""
    captions: tuple[str, ...] = ()
    """What each shows; empty: the model is shown the frames."""
    said: str = ""
    """The subtitle lines at these frames."""


def caption(is_detailed: bool) -> str:
    """Ask what a frame or a clip shows (section 3.1)."""
    if is_detailed:
        return (
            "Describe in detail what is shown: who and what is there, what they do, where, and how it looks."
        )
    return prompts.caption()


def predict(question: Question, state: State) -> str:
    """Ask for an answer by what is known, with the reasons (the first of the three steps of section 3.2)."""
    return (
        f"{_state(state)}\n{_question(question)}\n"
        "Say in a few words what speaks for which answer, then give the answer that is most likely right. "
        f'Reply with JSON only, as in {{"reasoning": "...", "final_answer": "{_example(question)}"}}'
    )


def reflect(question: Question, state: State, prediction: Prediction) -> str:
    """Ask how far what is known supports the answer (the second step)."""
    answer = prediction.final_answer
    if not question.is_open:
        answer = f"{answer}. {question.choice(answer)}"
    return (
        f"{_state(state)}\n{_question(question)}\nYour answer: {answer}\n"
        f"Your reasons: {prediction.reasoning}\n"
        "Is this known well enough to answer? 1: no, too little is known. 2: in part. 3: yes. "
        'Reply with JSON only, as in {"confidence": 2}'
    )


def search(question: Question, state: State, segments: Sequence[VideoSegment]) -> str:
    """Ask what is missing, and in which segments to look for it (section 3.3); without segments: anywhere."""
    parts = [_state(state), _question(question), "Too little is known to answer."]
    form = '{"description": "..."}'
    where = ""
    if segments:
        part_lines = "\n".join(f"{each.number}: {each.start:.1f}-{each.end:.1f} s" for each in segments)
        parts.append(f"Parts of the video between the frames:\n{part_lines}")
        where = ", and the part that holds it"
        first = segments[0]
        span = f"{first.start:.1f}-{first.end:.1f}"
        form = f'{{"segment_id": {first.number}, "duration": "{span}", "description": "..."}}'
    parts.append(
        f"Name the frames that you need to see: what each one shows{where}. One frame is looked for with "
        f'each description. Reply with JSON only, as in {{"frame_descriptions": [{form}, ...]}}'
    )
    return "\n".join(parts)


def _state(state: State) -> str:
    head = f"A video lasts {state.duration:.1f} seconds."
    subtitles = [prompts.said_at_frames(state.said)] if state.said else []
    if not state.captions:
        times = ", ".join(f"{time:.1f}" for time in state.times)
        return "\n".join([f"{head} The frames are from these times in seconds: {times}", *subtitles])
    lines = [f"{time:.1f} s: {text}" for time, text in zip(state.times, state.captions, strict=True)]
    return "\n".join([f"{head} Some of its frames show:", *lines, *subtitles])


def _question(question: Question) -> str:
    return "\n".join(part for part in (f"Question: {question.text}", question.lettered_choices()) if part)


def _example(question: Question) -> str:
    return "a few words" if question.is_open else "A"
