"""Programs by kind of question, as the pocket teacher writes them without faults.

Each kind has variants, the plain one first and then wider ones: more clips, frames checked one by one, text
cropped before it is read. A variant that calls a module which the API reference lacks is left out, and where
a whole group is missing, others take its place (`without`); a question that fits no kind is answered from
clips that its own words find. It knows a single fact about the world: its five movements by name and roughly
their extent, where another teacher would have to guess from the choices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from videopro.pocket.teacher.reading import ParsedQuestion
from videopro.pocket.teacher.variants import WHICH, ProgramVariant, program, quote
from videopro.pocket.teacher.without import ways_without
from videopro.question import NATIVE_PROGRAM

NATIVE = ProgramVariant("This needs one glance at the whole video.", NATIVE_PROGRAM)

GLANCE = ("weather", "main_place")
"""Kinds that any part of the video, or all of it at once, answers."""


def program_variants(reading: ParsedQuestion, modules: Collection[str]) -> list[ProgramVariant]:
    """The programs of several steps for a question, best first; `modules` are the available names."""
    makers = [
        *_WAYS.get(reading.kind, ()),
        *ways_without(reading.kind, modules),
        *_WAYS["other"],
        *ways_without("other", modules),
    ]
    variants = [maker(reading) for maker in makers]
    return [variant for variant in variants if variant.modules <= set(modules)]


# ---- one thing at one place --------------------------------------------------------------------------------


def _scene(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs one scene: first find {quote(r.subject)}, then ask about its frames.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.subject)}, top_k=1)
start, end = intervals[0]
frames = trim_frames(video, start, end, num_frames=16)
return query_mc(frames, question, choices)"""),
    )


def _scene_checked(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs more clips of {quote(r.the_place)}: keep the frames that show it, then ask about these.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=3)
frames = []
for clip in clips:
    frames.extend(extract_frames(clip, num_frames=8))
kept = []
for frame in frames:
    if query_yn(frame, {quote(f"Is this the {r.place}?")}) == "Yes":
        kept.append(frame)
if not kept:
    kept = frames
return query_mc(kept, question, choices)"""),
    )


def _scene_cut_out(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the thing alone: find {quote(r.the_place)}, cut {quote(r.named)} out of its "
        "frames, then ask about these parts.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=1)
frames = extract_frames(clips[0], num_frames=8)
parts = []
for frame in frames:
    boxes = detect_object(frame, {quote(r.named)}, box_threshold=0.3)
    if boxes and query_yn(frame, {quote(f"Is this the {r.place}?")}) == "Yes":
        parts.append(crop(frame, boxes[0]))
if not parts:
    parts = frames
return query_mc(parts, question, choices)"""),
    )


# ---- how it moves ------------------------------------------------------------------------------------------


_MOVES = """
text = ""
if len(xs) > 4:
    xs, ys, sizes = [sorted(values)[1:-1] for values in (xs, ys, sizes)]
    x = xs[-1] - xs[0] > 0.1
    y = ys[-1] - ys[0] > 0.1
    if x or y:
        move = "circles" if x and y else "slides" if x else "jumps"
    else:
        move = "pulses" if sizes[-1] > 1.4 * sizes[0] else "rests"
    text = {thing} + move + "."
return query_mc(frames, question, choices, context=text)"""


def _move(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs places over time: find {quote(r.subject)}, then {quote(r.named)} in each frame, and ask "
        "with how it moves.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.subject)}, top_k=1)
start, end = intervals[0]
frames = trim_frames(video, start, end, num_frames=10)
xs = []
ys = []
sizes = []
for frame in frames:
    boxes = detect_object(frame, {quote(r.named)}, box_threshold=0.3)
    if boxes:
        x0, y0, x1, y1 = boxes[0]
        xs.append((x0 + x1) / 2 / frame.width)
        ys.append((y0 + y1) / 2 / frame.height)
        sizes.append(y1 - y0){_MOVES.format(thing=quote(f"The {r.thing} "))}"""),
    )


def _move_tracked(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs more frames: find {quote(r.subject)}, track {quote(r.named)} through the clip, and ask "
        "with how it moves.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.subject)}, top_k=1)
frames = trim_frames(video, clips[0].start, clips[0].end, num_frames=16)
xs = []
ys = []
sizes = []
for track in track_object(frames, {quote(r.named)}):
    for box in track.boxes:
        if box:
            xs.append((box[0] + box[2]) / 2 / frames[0].width)
            ys.append((box[1] + box[3]) / 2 / frames[0].height)
            sizes.append(box[3] - box[1]){_MOVES.format(thing=quote(f"The {r.thing} "))}"""),
    )


# ---- before and after --------------------------------------------------------------------------------------


def _neighbour(r: ParsedQuestion) -> ProgramVariant:
    after = r.kind == "after"
    index, window = ("-1", "time + 2, time + 8") if after else ("0", "time - 8, time - 2")
    return ProgramVariant(
        f"This needs the scene of {quote(r.the_place)}: first find the frames around its clip that show "
        f"it, then ask about the frames right {r.kind} the scene.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=1)
start, end = intervals[0]
times = []
for frame in trim_frames(video, start - 10, end + 10, num_frames=16):
    if query_yn(frame, {quote(f"Is this the {r.place}?")}) == "Yes":
        times.append(frame.time)
if not times:
    times = [start, end]
time = times[{index}]
frames = trim_frames(video, {window}, num_frames=8)
return query_mc(frames, {quote(WHICH)}, choices)"""),
    )


def _neighbour_narrow(r: ParsedQuestion) -> ProgramVariant:
    after = r.kind == "after"
    window = "end + 3, end + 9" if after else "start - 9, start - 3"
    return ProgramVariant(
        f"This needs the best clip: find {quote(f'a scene at the {r.place}')}, then ask about the frames "
        f"{r.kind} that clip.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(f"a scene at the {r.place}")}, top_k=3)
best = max(clips, key=lambda clip: clip.score)
start, end = best
frames = trim_frames(video, {window}, num_frames=8)
return query_mc(frames, {quote(WHICH)}, choices)"""),
    )


# ---- how many scenes ---------------------------------------------------------------------------------------


def _count(r: ParsedQuestion, top_k: int = 12, frames: int = 3) -> ProgramVariant:
    return ProgramVariant(
        f"This needs all clips of {quote(r.the_place)}: find the parts that show it, where clips right "
        "after another are one scene, then ask with the count.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k={top_k})
count = 0
last = -100
kept = []
for clip in clips:
    frames = extract_frames(clip, num_frames={frames})
    if query_yn(frames, {quote(f"Is this the {r.place}?")}) == "Yes":
        if clip.start - last > 5:
            count = count + 1
        last = clip.end
        kept.append(frames[0])
if not kept:
    kept = extract_frames(video, num_frames=16)
numbers = [choice for choice in choices if choice.isdigit()]
if numbers:
    count = min(numbers, key=lambda choice: abs(int(choice) - count))
return query_mc(kept, question, choices, context=f"scenes at the {r.place}: {{count}}")"""),
    )


def _count_wider(r: ParsedQuestion) -> ProgramVariant:
    return _count(r, top_k=24, frames=2)


# ---- words to read -----------------------------------------------------------------------------------------


def _sign(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the text: find {quote(f'the sign at the {r.place}')}, read the frames, and ask with the "
        "text.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(f"the sign at the {r.place}")}, top_k=2)
texts = []
kept = []
for clip in clips:
    for frame in extract_frames(clip, num_frames=4):
        text = run_ocr(frame)
        if text:
            kept.append(frame)
            if text not in texts:
                texts.append(text)
if not kept:
    kept = extract_frames(clips[0], num_frames=16)
context = "Text read from the frames: " + " ".join(texts)
return query_mc(kept, question, choices, context=context)"""),
    )


def _sign_in_parts(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs more clips of {quote(r.the_place)}: read each part of the frames, and ask with the "
        "text.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.the_place)}, top_k=3)
texts = []
parts = []
for clip in clips:
    for frame in extract_frames(clip, num_frames=2):
        if query_yn(frame, {quote(f"Is this the {r.place}?")}) == "Yes":
            for part in [crop_left_top(frame), crop_right_top(frame), crop_left(frame), crop_right(frame)]:
                text = run_ocr(part)
                if text:
                    parts.append(part)
                    if text not in texts:
                        texts.append(text)
if not parts:
    parts = extract_frames(clips[0], num_frames=16)
context = "Text read from the frames: " + " ".join(texts)
return query_mc(parts, question, choices, context=context)"""),
    )


# ---- words to hear -----------------------------------------------------------------------------------------


def _spoken(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the line of the narrator: find {quote(r.line)}, then ask about the frames at that time.",
        program(f"""
lines = get_informative_subtitles(video, {quote(r.line)}, top_k=1)
start, end = lines[0]
frames = trim_frames(video, start, end, num_frames=8)
return query_mc(frames, {quote(WHICH)}, choices)"""),
    )


def _spoken_wider(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        f"This needs the line of the narrator: find {quote(r.line)}, then ask about the frames around that "
        "time.",
        program(f"""
lines = get_informative_subtitles(video, {quote(r.line)}, top_k=1)
start, end = lines[0]
frames = trim_around(video, (start + end) / 2, intervals=6, num_frames=16)
return query_mc(frames, question, choices, context=lines[0].text)"""),
    )


def _narration(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "The narrator says it: find the lines that the question is about, and ask with these lines.",
        program("""
lines = get_informative_subtitles(video, question, top_k=2)
frames = trim_around(video, lines[0].start, intervals=4, num_frames=4)
context = "Subtitles:\\n" + "\\n".join([line.text for line in lines])
return query_mc(frames, question, choices, context=context)"""),
    )


def _narration_wider(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This needs more lines that the question is about: find them, and ask with these.",
        program("""
lines = get_informative_subtitles(video, question, top_k=6)
frames = trim_around(video, lines[0].start, intervals=4, num_frames=4)
context = "Subtitles:\\n" + "\\n".join([line.text for line in lines])
return query_mc(frames, question, choices, context=context)"""),
    )


def _story(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This is about the whole story: get the subtitles of the whole video, and ask with them.",
        program("""
hints = get_subtitle_hints(video, question, choices)
frames = extract_frames(video, num_frames=8)
return query_mc(frames, question, choices, context="Subtitles:\\n" + hints)"""),
    )


def _story_by_option(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This needs the lines of the narrator about each option: find them, and ask with them.",
        program("""
texts = []
for choice in choices:
    try:
        lines = get_informative_subtitles(video, choice, top_k=8)
    except Exception:
        lines = []
    for line in lines:
        if choice in line.text and line.text not in texts:
            texts.append(line.text)
frames = extract_frames(video, num_frames=8)
return query_mc(frames, question, choices, context="Subtitles:\\n" + "\\n".join(texts))"""),
    )


# ---- the whole, and anything else --------------------------------------------------------------------------


def _whole_video(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "The whole video shows it: ask about frames of the whole video.",
        program("""
frames = extract_frames(video, num_frames=16)
return query_mc(frames, question, choices)"""),
    )


def _parts(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This needs the beginning, the middle and the end of the video: ask about each, and take the best "
        "answer.",
        program("""
best = None
for part in [0, 1, 2]:
    frames = trim_frames(video, duration * part / 3, duration * (part + 1) / 3, num_frames=16)
    answer = query_mc(frames, question, choices)
    if best is None or answer.confidence > best.confidence:
        best = answer
return best"""),
    )


def _by_question(r: ParsedQuestion) -> ProgramVariant:
    return ProgramVariant(
        "This needs the clips that the question is about: find them, then ask about their frames.",
        program(f"""
intervals, clips = get_informative_clips(video, {quote(r.text)}, top_k=3)
frames = []
for clip in clips:
    frames.extend(extract_frames(clip, num_frames=8))
return query_mc(frames, question, choices)"""),
    )


_WAYS: dict[str, tuple[Callable[[ParsedQuestion], ProgramVariant], ...]] = {
    "weather": (_whole_video, _parts),
    "main_place": (_whole_video, _parts),
    "color": (_scene, _scene_cut_out),
    "shape": (_scene, _scene_checked),
    "move": (_move, _move_tracked),
    "after": (_neighbour, _neighbour_narrow),
    "before": (_neighbour, _neighbour_narrow),
    "count": (_count, _count_wider),
    "sign": (_sign, _sign_in_parts),
    "spoken": (_spoken, _spoken_wider),
    "narration": (_narration, _narration_wider),
    "story": (_story, _story_by_option),
    "other": (_by_question, _whole_video),
}


def functions_of(reference: str) -> Iterator[str]:
    """Names of the functions in an API reference, or in a prompt that holds one: its lines "-
    `name(...)`".
    """
    for line in reference.split("\n"):
        head, bracket, _ = line.partition("(")
        if bracket and head.startswith("- `") and head[3:].isidentifier():
            yield head[3:]
