"""Programs whose letter follows from what calls return, as `pocket-teacher:logic` writes half of its first
ones: each option is asked about with yes or no, scenes are counted, text and lines are compared. Where no
option fits, the model is asked with the options."""

from __future__ import annotations

from collections.abc import Callable

from videopro.pocket.teacher.reading import ParsedQuestion
from videopro.pocket.teacher.variants import ProgramVariant, program, quote

_LETTERS = '"ABCDEFGH"'
_ASK = f"""
for letter, choice in zip({_LETTERS}, choices):
    if query_yn(frames, {{prompt}}) == "Yes":
        return letter
return query_mc(frames, {{question}}, choices)"""
_WHICH = quote("Which place is this?")


def logic_variant(reading: ParsedQuestion) -> ProgramVariant | None:
    """The program for a question; None for a kind that has none."""
    make = _WAYS.get(reading.kind)
    return None if make is None else make(reading)


def _asks(planning: str, look: str, prompt: str, question: str = "question") -> ProgramVariant:
    return ProgramVariant(planning, program(look + _ASK.format(prompt=prompt, question=question)))


def _weather(r: ParsedQuestion) -> ProgramVariant:
    return _asks(
        "The whole video shows it: take frames of the whole video, and check each option with yes or no.",
        "frames = extract_frames(video, num_frames=16)",
        'f"Is it {choice} here?"',
    )


def _main_place(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This needs a vote: take frames of the whole video, check each option in each frame, and take the "
        "option of most frames.",
        program(f"""
frames = extract_frames(video, num_frames=8)
votes = []
for choice in choices:
    votes.append(sum(query_yn(frame, f"Is this the {{choice}}?") == "Yes" for frame in frames))
return {_LETTERS}[votes.index(max(votes))]"""),
    )


def _scene(r: ParsedQuestion) -> ProgramVariant:
    prompt = f"Is the {r.thing} {{choice}}?" if r.kind == "color" else "Is there a {choice}?"
    return _asks(
        f"This needs one scene: first find {quote(r.subject)}, then check each option with yes or no.",
        f"""
intervals, clips = get_informative_clips(video, {quote(r.subject)}, top_k=1)
start, end = intervals[0]
frames = trim_frames(video, start, end, num_frames=16)""",
        "f" + quote(prompt),
    )


def _neighbour(r: ParsedQuestion) -> ProgramVariant:
    after = r.kind == "after"
    index, window = ("-1", "time + 2, time + 8") if after else ("0", "time - 8, time - 2")
    return _asks(
        f"This needs the scene of {quote(r.the_place)}: first find the frames around its clip that show it, "
        f"then check for the frames right {r.kind} the scene which option they show.",
        f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=1)
start, end = intervals[0]
times = []
for frame in trim_frames(video, start - 10, end + 10, num_frames=16):
    if query_yn(frame, {quote(f"Is this the {r.place}?")}) == "Yes":
        times.append(frame.time)
if not times:
    times = [start, end]
time = times[{index}]
frames = trim_frames(video, {window}, num_frames=8)""",
        'f"Is this the {choice}?"',
        _WHICH,
    )


def _count(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs all clips of {quote(r.the_place)}: find the parts that show it, where clips right "
        "after another are one scene, and take the option that is closest to the count.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=12)
count = 0
last = -100
for clip in clips:
    frames = extract_frames(clip, num_frames=3)
    if query_yn(frames, {quote(f"Is this the {r.place}?")}) == "Yes":
        if clip.start - last > 5:
            count = count + 1
        last = clip.end
gaps = [abs(int(choice) - count) for choice in choices]
return {_LETTERS}[gaps.index(min(gaps))]"""),
    )


def _sign(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the text: find {quote(f'the sign at the {r.place}')}, read the frames, and take the "
        "option that is written there.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(f"the sign at the {r.place}")}, top_k=2)
for clip in clips:
    frames = extract_frames(clip, num_frames=4)
    for frame in frames:
        text = run_ocr(frame).lower()
        for letter, choice in zip({_LETTERS}, choices):
            if choice.lower() in text:
                return letter
return query_mc(frames, question, choices)"""),
    )


def _spoken(r: ParsedQuestion) -> ProgramVariant:
    return _asks(
        f"This needs the line of the narrator: find {quote(r.line)}, then check which option the frames at "
        "that time show.",
        f"""
lines = get_informative_subtitles(video, {quote(r.line)}, top_k=1)
start, end = lines[0]
frames = trim_frames(video, start, end, num_frames=8)""",
        'f"Is this the {choice}?"',
        _WHICH,
    )


def _narration(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "The narrator says it: find the lines that the question is about, and take the option that is said.",
        program(f"""
lines = get_informative_subtitles(video, question, top_k=2)
for line in lines:
    for letter, choice in zip({_LETTERS}, choices):
        if choice in line.text:
            return letter
frames = trim_around(video, lines[0].start, intervals=4, num_frames=4)
return query_mc(frames, question, choices, context=lines[0].text)"""),
    )


def _story(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This is about the whole story: count the lines of the narrator about each option, and take the "
        "option of most lines.",
        program(f"""
counts = []
for choice in choices:
    try:
        lines = get_informative_subtitles(video, choice, top_k=8)
    except Exception:
        lines = []
    counts.append(sum(choice in line.text for line in lines))
return {_LETTERS}[counts.index(max(counts))]"""),
    )


_WAYS: dict[str, Callable[[ParsedQuestion], ProgramVariant]] = {
    "weather": _weather,
    "main_place": _main_place,
    "color": _scene,
    "shape": _scene,
    "after": _neighbour,
    "before": _neighbour,
    "count": _count,
    "sign": _sign,
    "spoken": _spoken,
    "narration": _narration,
    "story": _story,
}
