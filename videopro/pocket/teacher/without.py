"""Programs of the pocket teacher for a library that lacks a whole group of modules.

Without retrieval, frames of the whole video are looked through, or its subtitles. Without localization no
frames can be taken, so clips, lines and the video itself are asked about. Without extraction nothing is read,
found or cut out, so the frames of the right clip are asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from videopro.pocket.teacher.reading import ParsedQuestion
from videopro.pocket.teacher.variants import WHICH, ProgramVariant, program, quote

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "retrieval": ("get_informative_clips", "get_informative_subtitles"),
    "localization": ("extract_frames", "trim_frames", "trim_around", "trim_before", "trim_after"),
    "extraction": ("detect_object", "run_ocr", "crop", "crop_left", "crop_right"),
}
"""What marks a group as missing: none of these names is there."""


def ways_without(
    kind: str, modules: Collection[str]
) -> tuple[Callable[[ParsedQuestion], ProgramVariant], ...]:
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


def _scan(r: ParsedQuestion) -> str:
    return _SCAN.format(is_place=quote(f"Is this the {r.place}?"))


def _scene_scanned(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs frames of {quote(r.the_place)}: look at frames of the whole video, keep those that show "
        "it, then ask about these.",
        program(f"""{_scan(r)}
if not kept:
    kept = frames
return query_mc(kept, question, choices)"""),
    )


def _neighbour_scanned(r: ParsedQuestion) -> ProgramVariant:
    after = r.kind == "after"
    window = "kept[-1].time + 8, kept[-1].time + 16" if after else "kept[0].time - 16, kept[0].time - 8"
    return ProgramVariant(
        f"This needs the scene of {quote(r.the_place)}: look at frames of the whole video, keep those that "
        f"show it, then ask about the frames {r.kind} these.",
        program(f"""{_scan(r)}
if not kept:
    return query_mc(frames, question, choices)
frames = trim_frames(video, {window}, num_frames=8)
return query_mc(frames, {quote(WHICH)}, choices)"""),
    )


def _count_scanned(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs all scenes at {quote(r.the_place)}: look at frames of the whole video, where frames "
        "right after another are one scene, then ask with the count.",
        program(f"""
count = 0
last = False
kept = []
for frame in extract_frames(video, num_frames=48):
    show = query_yn(frame, {quote(f"Is this the {r.place}?")}) == "Yes"
    if show:
        kept.append(frame)
        if not last:
            count = count + 1
    last = show
if not kept:
    kept = extract_frames(video, num_frames=16)
numbers = [choice for choice in choices if choice.isdigit()]
if numbers:
    count = min(numbers, key=lambda choice: abs(int(choice) - count))
return query_mc(kept, question, choices, context=f"scenes at the {r.place}: {{count}}")"""),
    )


def _sign_scanned(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the text: look at frames of the whole video, read those that show {quote(r.the_place)}, "
        "and ask with the text.",
        program(f"""{_scan(r)}
texts = []
for frame in kept:
    text = run_ocr(frame)
    if text and text not in texts:
        texts.append(text)
if not kept:
    kept = frames
context = "Text read from the frames: " + " ".join(texts)
return query_mc(kept, question, choices, context=context)"""),
    )


def _spoken_scanned(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This needs the line of the narrator: look at the subtitles of frames of the whole video, keep "
        f"those with {quote(r.line)}, then ask about these.",
        program(f"""
frames = extract_frames(video, num_frames=512)
kept = [frame for frame in frames if {quote(r.line)} in frame.subtitles]
if not kept:
    kept = extract_frames(video, num_frames=16)
return query_mc(kept, {quote(WHICH)}, choices)"""),
    )


def _narration_hinted(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "The narrator says it: get the subtitles of the whole video, and ask with them.",
        program("""
hints = get_subtitle_hints(video, question, choices)
frames = extract_frames(video, num_frames=4)
return query_mc(frames, question, choices, context="Subtitles:\\n" + hints)"""),
    )


# ---- without localization ----------------------------------------------------------------------------------


def _clip(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs one clip: find {quote(r.subject)}, then ask about the clip.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.subject)}, top_k=1)
return query_mc(clips[0], question, choices)"""),
    )


def _clips_checked(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs more clips of {quote(r.the_place)}: keep the clips that show it, then ask about these.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=3)
kept = []
for clip in clips:
    if query_yn(clip, {quote(f"Is this the {r.place}?")}) == "Yes":
        kept.append(clip)
if not kept:
    kept = clips
return query_mc(kept, question, choices)"""),
    )


def _count_clips(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs all clips of {quote(r.the_place)}: find the clips that show it, where clips right "
        "after another are one scene, then ask with the count.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=12)
count = 0
last = -100
kept = []
for clip in clips:
    if query_yn(clip, {quote(f"Is this the {r.place}?")}) == "Yes":
        if clip.start - last > 5:
            count = count + 1
        last = clip.end
        kept.append(clip)
if not kept:
    kept = clips
numbers = [choice for choice in choices if choice.isdigit()]
if numbers:
    count = min(numbers, key=lambda choice: abs(int(choice) - count))
return query_mc(kept[0], question, choices, context=f"scenes at the {r.place}: {{count}}")"""),
    )


def _neighbour_clip(r: ParsedQuestion) -> ProgramVariant:
    which, best = ("last", "clips[-1]") if r.kind == "after" else ("first", "clips[0]")
    return ProgramVariant(
        f"This needs the clips of {quote(r.the_place)}: find them, then ask about the {which} clip.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=3)
return query_mc({best}, question, choices)"""),
    )


def _line(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the line of the narrator: find {quote(r.line)}, then ask about the line.",
        program(f"""
lines = get_informative_subtitles(video, {quote(r.line)}, top_k=1)
return query_mc(lines[0], {quote(WHICH)}, choices)"""),
    )


def _lines(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "The narrator says it: find the lines that the question is about, and ask with these lines.",
        program("""
lines = get_informative_subtitles(video, question, top_k=2)
context = "Subtitles:\\n" + "\\n".join([line.text for line in lines])
return query_mc(lines[0], question, choices, context=context)"""),
    )


def _ask_about_story(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This is about the whole story: get the subtitles of the whole video, and ask with them.",
        program("""
hints = get_subtitle_hints(video, question, choices)
return query_mc(video, question, choices, context="Subtitles:\\n" + hints)"""),
    )


def _clips_by_question(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This needs the clips that the question is about: find them, then ask about these.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.text)}, top_k=3)
return query_mc(clips, question, choices)"""),
    )


def _video(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "The whole video shows it: ask about the whole video.",
        program("""
return query_mc(video, question, choices)"""),
    )


# ---- without extraction ------------------------------------------------------------------------------------


def _ask_about_scene(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs one scene: first find {quote(r.subject)}, then ask about its frames.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.subject)}, top_k=1)
start, end = intervals[0]
frames = trim_frames(video, start, end, num_frames=16)
return query_mc(frames, question, choices)"""),
    )


def _ask_about_sign(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the clips: find {quote(f'the sign at the {r.place}')}, then ask about their frames.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(f"the sign at the {r.place}")}, top_k=2)
frames = []
for clip in clips:
    frames.extend(extract_frames(clip, num_frames=8))
return query_mc(frames, question, choices)"""),
    )


_WAYS: Mapping[str, Mapping[str, tuple[Callable[[ParsedQuestion], ProgramVariant], ...]]] = {
    "retrieval": {
        "color": (_scene_scanned,),
        "shape": (_scene_scanned,),
        "move": (_scene_scanned,),
        "after": (_neighbour_scanned,),
        "before": (_neighbour_scanned,),
        "count": (_count_scanned,),
        "sign": (_sign_scanned, _scene_scanned),
        "spoken": (_spoken_scanned,),
        "narration": (_narration_hinted,),
    },
    "localization": {
        "weather": (_video,),
        "main_place": (_video,),
        "color": (_clip, _clips_checked),
        "shape": (_clip, _clips_checked),
        "move": (_clip, _clips_checked),
        "after": (_neighbour_clip,),
        "before": (_neighbour_clip,),
        "count": (_count_clips,),
        "sign": (_clips_checked,),
        "spoken": (_line, _lines),
        "narration": (_lines,),
        "story": (_ask_about_story,),
        "other": (_clips_by_question, _video),
    },
    "extraction": {
        "move": (_ask_about_scene,),
        "sign": (_ask_about_sign,),
    },
}
