"""Programs of the pocket teacher for a library that lacks a whole group of modules.

Without retrieval, frames of the whole video are looked through, or its subtitles. Without localization no
frames can be taken, so clips, lines and the video itself are asked about. Without extraction nothing is read,
found or cut out, so the frames of the right clip are asked about.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from videopro.pocket.teacher.programs import CLOSEST, SCENE
from videopro.pocket.teacher.variants import Way, after_and_before

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "retrieval": ("get_informative_clips", "get_informative_subtitles"),
    "localization": ("extract_frames", "trim_frames", "trim_around", "trim_before", "trim_after"),
    "extraction": ("detect_object", "run_ocr", "crop", "crop_left", "crop_right"),
}
"""What marks a group as missing: none of these names is there."""


def ways_without(kind: str, modules: Collection[str]) -> tuple[Way, ...]:
    """The programs for a kind of question where whole groups are missing, best first; empty if none is."""
    missing = [group for group, names in _GROUPS.items() if not set(names) & set(modules)]
    return tuple(way for group in missing for way in _WAYS[group].get(kind, ()))


# ---- without retrieval -------------------------------------------------------------------------------------

_SCAN = """
frames = extract_frames(video, num_frames=24)
kept = []
for frame in frames:
    if query_yn(frame, {is_place}) == "Yes":
        kept.append(frame)
"""

_SCENE_SCANNED = Way(
    "This needs frames of {the_place}: look at frames of the whole video, keep those that show it, then ask "
    "about these.",
    _SCAN
    + """
if not kept:
    kept = frames
return query_mc(kept, question, choices)""",
)

_NEIGHBOUR_SCANNED = after_and_before(
    "This needs the scene of {the_place}: look at frames of the whole video, keep those that show it, then "
    "ask about the frames {kind} these.",
    _SCAN
    + """
if not kept:
    return query_mc(frames, question, choices)
frames = trim_frames(video, <window>, num_frames=8)
return query_mc(frames, {which}, choices)""",
    window=("kept[-1].time + 8, kept[-1].time + 16", "kept[0].time - 16, kept[0].time - 8"),
)

_COUNT_SCANNED = Way(
    "This needs all scenes at {the_place}: look at frames of the whole video, where frames right after "
    "another are one scene, then ask with the count.",
    """
count = 0
last = False
kept = []
for frame in extract_frames(video, num_frames=48):
    show = query_yn(frame, {is_place}) == "Yes"
    if show:
        kept.append(frame)
        if not last:
            count = count + 1
    last = show
if not kept:
    kept = extract_frames(video, num_frames=16)"""
    + CLOSEST
    + """
return query_mc(kept, question, choices, context=f"scenes at the {place}: {{count}}")""",
)

_SIGN_SCANNED = Way(
    "This needs the text: look at frames of the whole video, read those that show {the_place}, and ask with "
    "the text.",
    _SCAN
    + """
texts = []
for frame in kept:
    text = run_ocr(frame)
    if text and text not in texts:
        texts.append(text)
if not kept:
    kept = frames
context = "Text read from the frames: " + " ".join(texts)
return query_mc(kept, question, choices, context=context)""",
)

_SPOKEN_SCANNED = Way(
    "This needs the line of the narrator: look at the subtitles of frames of the whole video, keep those "
    "with {line}, then ask about these.",
    """
frames = extract_frames(video, num_frames=512)
kept = [frame for frame in frames if {line} in frame.subtitles]
if not kept:
    kept = extract_frames(video, num_frames=16)
return query_mc(kept, {which}, choices)""",
)

_NARRATION_HINTED = Way(
    "The narrator says it: get the subtitles of the whole video, and ask with them.",
    """
hints = get_subtitle_hints(video, question, choices)
frames = extract_frames(video, num_frames=4)
return query_mc(frames, question, choices, context="Subtitles:\\n" + hints)""",
)

# ---- without localization ----------------------------------------------------------------------------------

_CLIP = Way(
    "This needs one clip: find {subject}, then ask about the clip.",
    """
intervals, clips = get_informative_clips(video, {subject}, top_k=1)
return query_mc(clips[0], question, choices)""",
)

_CLIPS_CHECKED = Way(
    "This needs more clips of {the_place}: keep the clips that show it, then ask about these.",
    """
intervals, clips = get_informative_clips(video, {the_place}, top_k=3)
kept = []
for clip in clips:
    if query_yn(clip, {is_place}) == "Yes":
        kept.append(clip)
if not kept:
    kept = clips
return query_mc(kept, question, choices)""",
)

_COUNT_CLIPS = Way(
    "This needs all clips of {the_place}: find the clips that show it, where clips right after another are "
    "one scene, then ask with the count.",
    """
intervals, clips = get_informative_clips(video, {the_place}, top_k=12)
count = 0
last = -100
kept = []
for clip in clips:
    if query_yn(clip, {is_place}) == "Yes":
        if clip.start - last > 5:
            count = count + 1
        last = clip.end
        kept.append(clip)
if not kept:
    kept = clips"""
    + CLOSEST
    + """
return query_mc(kept[0], question, choices, context=f"scenes at the {place}: {{count}}")""",
)

_NEIGHBOUR_CLIP = after_and_before(
    "This needs the clips of {the_place}: find them, then ask about the <which> clip.",
    """
intervals, clips = get_informative_clips(video, {the_place}, top_k=3)
return query_mc(<best>, question, choices)""",
    which=("last", "first"),
    best=("clips[-1]", "clips[0]"),
)

_LINE = Way(
    "This needs the line of the narrator: find {line}, then ask about the line.",
    """
lines = get_informative_subtitles(video, {line}, top_k=1)
return query_mc(lines[0], {which}, choices)""",
)

_LINES = Way(
    "The narrator says it: find the lines that the question is about, and ask with these lines.",
    """
lines = get_informative_subtitles(video, question, top_k=2)
context = "Subtitles:\\n" + "\\n".join([line.text for line in lines])
return query_mc(lines[0], question, choices, context=context)""",
)

_STORY_HINTED = Way(
    "This is about the whole story: get the subtitles of the whole video, and ask with them.",
    """
hints = get_subtitle_hints(video, question, choices)
return query_mc(video, question, choices, context="Subtitles:\\n" + hints)""",
)

_CLIPS_BY_QUESTION = Way(
    "This needs the clips that the question is about: find them, then ask about these.",
    """
intervals, clips = get_informative_clips(video, {text}, top_k=3)
return query_mc(clips, question, choices)""",
)

_VIDEO = Way(
    "The whole video shows it: ask about the whole video.",
    """
return query_mc(video, question, choices)""",
)

# ---- without extraction ------------------------------------------------------------------------------------

_SIGN_IN_FRAMES = Way(
    "This needs the clips: find {the_sign}, then ask about their frames.",
    """
intervals, clips = get_informative_clips(video, {the_sign}, top_k=2)
frames = []
for clip in clips:
    frames.extend(extract_frames(clip, num_frames=8))
return query_mc(frames, question, choices)""",
)

_WAYS: Mapping[str, Mapping[str, tuple[Way, ...]]] = {
    "retrieval": {
        **dict.fromkeys(("color", "shape", "move"), (_SCENE_SCANNED,)),
        **_NEIGHBOUR_SCANNED,
        "count": (_COUNT_SCANNED,),
        "sign": (_SIGN_SCANNED, _SCENE_SCANNED),
        "spoken": (_SPOKEN_SCANNED,),
        "narration": (_NARRATION_HINTED,),
    },
    "localization": {
        **dict.fromkeys(("weather", "main_place"), (_VIDEO,)),
        **dict.fromkeys(("color", "shape", "move"), (_CLIP, _CLIPS_CHECKED)),
        **_NEIGHBOUR_CLIP,
        "count": (_COUNT_CLIPS,),
        "sign": (_CLIPS_CHECKED,),
        "spoken": (_LINE, _LINES),
        "narration": (_LINES,),
        "story": (_STORY_HINTED,),
        "other": (_CLIPS_BY_QUESTION, _VIDEO),
    },
    "extraction": {"move": (SCENE,), "sign": (_SIGN_IN_FRAMES,)},
}
