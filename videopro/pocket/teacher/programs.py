"""Programs by kind of question, as the pocket teacher writes them without faults.

Each kind has variants, the plain one first and then wider ones: more clips, frames checked one by one, text
cropped before it is read. A variant that calls a module which the API reference lacks is left out, and where
a whole group is missing, others take its place (`without`); a question that fits no kind is answered from
clips that its own words find. It knows a single fact about the world: its five movements by name and roughly
their extent, where another teacher would have to guess from the choices.
"""

from __future__ import annotations

from collections.abc import Mapping

from videopro.pocket.teacher.variants import Way, after_and_before

# ---- one thing at one place --------------------------------------------------------------------------------

SCENE = Way(
    "This needs one scene: first find {subject}, then ask about its frames.",
    """
intervals, clips = get_informative_clips(video, {subject}, top_k=1)
start, end = intervals[0]
frames = trim_frames(video, start, end, num_frames=16)
return query_mc(frames, question, choices)""",
)

_SCENE_CHECKED = Way(
    "This needs more clips of {the_place}: keep the frames that show it, then ask about these.",
    """
intervals, clips = get_informative_clips(video, {the_place}, top_k=3)
frames = []
for clip in clips:
    frames.extend(extract_frames(clip, num_frames=8))
kept = []
for frame in frames:
    if query_yn(frame, {is_place}) == "Yes":
        kept.append(frame)
if not kept:
    kept = frames
return query_mc(kept, question, choices)""",
)

_SCENE_CUT_OUT = Way(
    "This needs the thing alone: find {the_place}, cut {named} out of its frames, then ask about these "
    "parts.",
    """
intervals, clips = get_informative_clips(video, {the_place}, top_k=1)
frames = extract_frames(clips[0], num_frames=8)
parts = []
for frame in frames:
    boxes = detect_object(frame, {named}, box_threshold=0.3)
    if boxes and query_yn(frame, {is_place}) == "Yes":
        parts.append(crop(frame, boxes[0]))
if not parts:
    parts = frames
return query_mc(parts, question, choices)""",
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
    text = {the_thing} + move + "."
return query_mc(frames, question, choices, context=text)"""

_MOVE = Way(
    "This needs places over time: find {subject}, then {named} in each frame, and ask with how it moves.",
    """
intervals, clips = get_informative_clips(video, {subject}, top_k=1)
start, end = intervals[0]
frames = trim_frames(video, start, end, num_frames=10)
xs = []
ys = []
sizes = []
for frame in frames:
    boxes = detect_object(frame, {named}, box_threshold=0.3)
    if boxes:
        x0, y0, x1, y1 = boxes[0]
        xs.append((x0 + x1) / 2 / frame.width)
        ys.append((y0 + y1) / 2 / frame.height)
        sizes.append(y1 - y0)"""
    + _MOVES,
)

_MOVE_TRACKED = Way(
    "This needs more frames: find {subject}, track {named} through the clip, and ask with how it moves.",
    """
intervals, clips = get_informative_clips(video, {subject}, top_k=1)
frames = trim_frames(video, clips[0].start, clips[0].end, num_frames=16)
xs = []
ys = []
sizes = []
for track in track_object(frames, {named}):
    for box in track.boxes:
        if box:
            xs.append((box[0] + box[2]) / 2 / frames[0].width)
            ys.append((box[1] + box[3]) / 2 / frames[0].height)
            sizes.append(box[3] - box[1])"""
    + _MOVES,
)

# ---- before and after --------------------------------------------------------------------------------------

BESIDE = {"index": ("-1", "0"), "window": ("time + 2, time + 8", "time - 8, time - 2")}
FRAMES_BESIDE = """
intervals, clips = get_informative_clips(video, {the_place}, top_k=1)
start, end = intervals[0]
times = []
for frame in trim_frames(video, start - 10, end + 10, num_frames=16):
    if query_yn(frame, {is_place}) == "Yes":
        times.append(frame.time)
if not times:
    times = [start, end]
time = times[<index>]
frames = trim_frames(video, <window>, num_frames=8)"""

_NEIGHBOUR = after_and_before(
    "This needs the scene of {the_place}: first find the frames around its clip that show it, then ask about "
    "the frames right {kind} the scene.",
    FRAMES_BESIDE + "\nreturn query_mc(frames, {which}, choices)",
    **BESIDE,
)

_NEIGHBOUR_NARROW = after_and_before(
    "This needs the best clip: find {at_place}, then ask about the frames {kind} that clip.",
    """
intervals, clips = get_informative_clips(video, {at_place}, top_k=3)
best = max(clips, key=lambda clip: clip.score)
start, end = best
frames = trim_frames(video, <window>, num_frames=8)
return query_mc(frames, {which}, choices)""",
    window=("end + 3, end + 9", "start - 9, start - 3"),
)

# ---- how many scenes ---------------------------------------------------------------------------------------

CLOSEST = """
numbers = [choice for choice in choices if choice.isdigit()]
if numbers:
    count = min(numbers, key=lambda choice: abs(int(choice) - count))"""


def _count(top_k: int, frames: int) -> Way:
    return Way(
        "This needs all clips of {the_place}: find the parts that show it, where clips right after another "
        "are one scene, then ask with the count.",
        f"""
intervals, clips = get_informative_clips(video, {{the_place}}, top_k={top_k})
count = 0
last = -100
kept = []
for clip in clips:
    frames = extract_frames(clip, num_frames={frames})
    if query_yn(frames, {{is_place}}) == "Yes":
        if clip.start - last > 5:
            count = count + 1
        last = clip.end
        kept.append(frames[0])
if not kept:
    kept = extract_frames(video, num_frames=16)"""
        + CLOSEST
        + """
return query_mc(kept, question, choices, context=f"scenes at the {place}: {{count}}")""",
    )


# ---- words to read -----------------------------------------------------------------------------------------

_SIGN = Way(
    "This needs the text: find {the_sign}, read the frames, and ask with the text.",
    """
intervals, clips = get_informative_clips(video, {the_sign}, top_k=2)
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
return query_mc(kept, question, choices, context=context)""",
)

_SIGN_IN_PARTS = Way(
    "This needs more clips of {the_place}: read each part of the frames, and ask with the text.",
    """
intervals, clips = get_informative_clips(video, {the_place}, top_k=3)
texts = []
parts = []
for clip in clips:
    for frame in extract_frames(clip, num_frames=2):
        if query_yn(frame, {is_place}) == "Yes":
            for part in [crop_left_top(frame), crop_right_top(frame), crop_left(frame), crop_right(frame)]:
                text = run_ocr(part)
                if text:
                    parts.append(part)
                    if text not in texts:
                        texts.append(text)
if not parts:
    parts = extract_frames(clips[0], num_frames=16)
context = "Text read from the frames: " + " ".join(texts)
return query_mc(parts, question, choices, context=context)""",
)

# ---- words to hear -----------------------------------------------------------------------------------------

AT_LINE = """
lines = get_informative_subtitles(video, {line}, top_k=1)
start, end = lines[0]
frames = trim_frames(video, start, end, num_frames=8)"""

_SPOKEN = Way(
    "This needs the line of the narrator: find {line}, then ask about the frames at that time.",
    AT_LINE + "\nreturn query_mc(frames, {which}, choices)",
)

_SPOKEN_WIDER = Way(
    "This needs the line of the narrator: find {line}, then ask about the frames around that time.",
    """
lines = get_informative_subtitles(video, {line}, top_k=1)
start, end = lines[0]
frames = trim_around(video, (start + end) / 2, intervals=6, num_frames=16)
return query_mc(frames, question, choices, context=lines[0].text)""",
)

_NARRATION = Way(
    "The narrator says it: find the lines that the question is about, and ask with these lines.",
    """
lines = get_informative_subtitles(video, question, top_k=2)
frames = trim_around(video, lines[0].start, intervals=4, num_frames=4)
context = "Subtitles:\\n" + "\\n".join([line.text for line in lines])
return query_mc(frames, question, choices, context=context)""",
)

_NARRATION_WIDER = Way(
    "This needs more lines that the question is about: find them, and ask with these.",
    _NARRATION.body.replace("top_k=2", "top_k=6"),
)

_STORY = Way(
    "This is about the whole story: get the subtitles of the whole video, and ask with them.",
    """
hints = get_subtitle_hints(video, question, choices)
frames = extract_frames(video, num_frames=8)
return query_mc(frames, question, choices, context="Subtitles:\\n" + hints)""",
)

_STORY_BY_OPTION = Way(
    "This needs the lines of the narrator about each option: find them, and ask with them.",
    """
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
return query_mc(frames, question, choices, context="Subtitles:\\n" + "\\n".join(texts))""",
)

# ---- the whole, and anything else --------------------------------------------------------------------------

_WHOLE_VIDEO = Way(
    "The whole video shows it: ask about frames of the whole video.",
    """
frames = extract_frames(video, num_frames=16)
return query_mc(frames, question, choices)""",
)

_PARTS = Way(
    "This needs the beginning, the middle and the end of the video: ask about each, and take the best "
    "answer.",
    """
best = None
for part in [0, 1, 2]:
    frames = trim_frames(video, duration * part / 3, duration * (part + 1) / 3, num_frames=16)
    answer = query_mc(frames, question, choices)
    if best is None or answer.confidence > best.confidence:
        best = answer
return best""",
)

_BY_QUESTION = Way(
    "This needs the clips that the question is about: find them, then ask about their frames.",
    """
intervals, clips = get_informative_clips(video, {text}, top_k=3)
frames = []
for clip in clips:
    frames.extend(extract_frames(clip, num_frames=8))
return query_mc(frames, question, choices)""",
)

WAYS: Mapping[str, tuple[Way, ...]] = {
    "weather": (_WHOLE_VIDEO, _PARTS),
    "main_place": (_WHOLE_VIDEO, _PARTS),
    "color": (SCENE, _SCENE_CUT_OUT),
    "shape": (SCENE, _SCENE_CHECKED),
    "move": (_MOVE, _MOVE_TRACKED),
    "after": _NEIGHBOUR["after"] + _NEIGHBOUR_NARROW["after"],
    "before": _NEIGHBOUR["before"] + _NEIGHBOUR_NARROW["before"],
    "count": (_count(12, 3), _count(24, 2)),
    "sign": (_SIGN, _SIGN_IN_PARTS),
    "spoken": (_SPOKEN, _SPOKEN_WIDER),
    "narration": (_NARRATION, _NARRATION_WIDER),
    "story": (_STORY, _STORY_BY_OPTION),
    "other": (_BY_QUESTION, _WHOLE_VIDEO),
}
