"""Programs whose letter follows from what calls return, as `pocket-teacher:logic` writes half of its first
ones: each option is asked about with yes or no, scenes are counted, text and lines are compared. Where no
option fits, the model is asked with the options."""

from __future__ import annotations

from collections.abc import Mapping

from videopro.pocket.teacher.programs import AT_LINE, BESIDE, FRAMES_BESIDE
from videopro.pocket.teacher.reading import ParsedQuestion
from videopro.pocket.teacher.variants import ProgramVariant, Way, after_and_before


def logic_variant(reading: ParsedQuestion) -> ProgramVariant | None:
    """The program for a question; None for a kind that has none."""
    way = _WAYS.get(reading.kind)
    return None if way is None else way.write(reading)


def _asking(look: str, prompt: str, question: str = "question") -> str:
    """A body that takes `frames`, and asks about each option with yes or no."""
    return f"""{look}
for letter, choice in zip({{letters}}, choices):
    if query_yn(frames, {prompt}) == "Yes":
        return letter
return query_mc(frames, {question}, choices)"""


_AT_PLACE = 'f"Is this the {{choice}}?"'
_FIND_SCENE = "This needs one scene: first find {subject}, then check each option with yes or no."
_FRAMES_OF_SCENE = """
intervals, clips = get_informative_clips(video, {subject}, top_k=1)
start, end = intervals[0]
frames = trim_frames(video, start, end, num_frames=16)"""

_NEIGHBOUR = after_and_before(
    "This needs the scene of {the_place}: first find the frames around its clip that show it, then check for "
    "the frames right {kind} the scene which option they show.",
    _asking(FRAMES_BESIDE, _AT_PLACE, "{which}"),
    **BESIDE,
)

_WAYS: Mapping[str, Way] = {
    "weather": Way(
        "The whole video shows it: take frames of the whole video, and check each option with yes or no.",
        _asking("frames = extract_frames(video, num_frames=16)", 'f"Is it {{choice}} here?"'),
    ),
    "main_place": Way(
        "This needs a vote: take frames of the whole video, check each option in each frame, and take the "
        "option of most frames.",
        """
frames = extract_frames(video, num_frames=8)
votes = []
for choice in choices:
    votes.append(sum(query_yn(frame, f"Is this the {{choice}}?") == "Yes" for frame in frames))
return {letters}[votes.index(max(votes))]""",
    ),
    "color": Way(_FIND_SCENE, _asking(_FRAMES_OF_SCENE, "f{is_thing}")),
    "shape": Way(_FIND_SCENE, _asking(_FRAMES_OF_SCENE, 'f"Is there a {{choice}}?"')),
    "after": _NEIGHBOUR["after"][0],
    "before": _NEIGHBOUR["before"][0],
    "count": Way(
        "This needs all clips of {the_place}: find the parts that show it, where clips right after another "
        "are one scene, and take the option that is closest to the count.",
        """
intervals, clips = get_informative_clips(video, {the_place}, top_k=12)
count = 0
last = -100
for clip in clips:
    frames = extract_frames(clip, num_frames=3)
    if query_yn(frames, {is_place}) == "Yes":
        if clip.start - last > 5:
            count = count + 1
        last = clip.end
gaps = [abs(int(choice) - count) for choice in choices]
return {letters}[gaps.index(min(gaps))]""",
    ),
    "sign": Way(
        "This needs the text: find {the_sign}, read the frames, and take the option that is written there.",
        """
intervals, clips = get_informative_clips(video, {the_sign}, top_k=2)
for clip in clips:
    frames = extract_frames(clip, num_frames=4)
    for frame in frames:
        text = run_ocr(frame).lower()
        for letter, choice in zip({letters}, choices):
            if choice.lower() in text:
                return letter
return query_mc(frames, question, choices)""",
    ),
    "spoken": Way(
        "This needs the line of the narrator: find {line}, then check which option the frames at that time "
        "show.",
        _asking(AT_LINE, _AT_PLACE, "{which}"),
    ),
    "narration": Way(
        "The narrator says it: find the lines that the question is about, and take the option that is said.",
        """
lines = get_informative_subtitles(video, question, top_k=2)
for line in lines:
    for letter, choice in zip({letters}, choices):
        if choice in line.text:
            return letter
frames = trim_around(video, lines[0].start, intervals=4, num_frames=4)
return query_mc(frames, question, choices, context=lines[0].text)""",
    ),
    "story": Way(
        "This is about the whole story: count the lines of the narrator about each option, and take the "
        "option of most lines.",
        """
counts = []
for choice in choices:
    try:
        lines = get_informative_subtitles(video, choice, top_k=8)
    except Exception:
        lines = []
    counts.append(sum(choice in line.text for line in lines))
return {letters}[counts.index(max(counts))]""",
    ),
}
