"""Renders frames for training the pocket model: single scenes and whole videos, drawn, encoded and decoded
once.

Every frame has been through H.264, like the videos of the world. Frames are stored in memory-mapped files,
which several loaders can share, with a JSON file that describes their content. Seeds are from the train
split's range and above, never those of val or test.
"""

from __future__ import annotations

import io
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from videopro.cli import counted
from videopro.pocket import drawing, vocabulary
from videopro.pocket.drawing import Actor, Sign
from videopro.pocket.script import LENGTHS, Scene, Script, make_actor, make_script, make_sign
from videopro.train.pocket.architecture import FRAME_SIZE, FRAMES

HELD_OUT = 200
"""Scenes and videos at the end of a pool that are used for evaluation only."""
_LAST = "videos.json"
"""Written at the end, so a pool that has it is complete."""
SCENE_SEED = 5_000_000
VIDEO_SEED = 6_000_000


def encode_and_decode(pictures: list[np.ndarray], crf: int) -> list[av.VideoFrame]:
    """The pictures after H.264 encoding at about the world's quality."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=drawing.FPS)
        stream.width, stream.height, stream.pix_fmt = drawing.WIDTH, drawing.HEIGHT, "yuv420p"
        # Processes share the cores already.
        stream.codec_context.thread_count = 1
        stream.options = {"preset": "veryfast", "crf": str(crf)}
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    buffer.seek(0)
    with av.open(buffer, "r") as source:
        return list(source.decode(video=0))


def downscale(frame: av.VideoFrame) -> np.ndarray:
    """A frame at the pocket model's size, (96, 160, 3) uint8."""
    height, width = FRAME_SIZE
    return frame.reformat(width, height, "rgb24", interpolation="BICUBIC").to_ndarray()


@dataclass(frozen=True)
class ScenePlan:
    """A random scene before it is drawn: its content, and the times of its 16 frames."""

    view: tuple[str, str, Actor | None, Sign | None, int]  # the arguments of `drawing.SceneView`
    times: list[float]  # seconds from the start of the scene
    clock: float  # seconds from the start of the video to the start of the scene
    crf: int
    big: int  # the frame that is also kept at full size
    annotation: dict[str, object]


def plan_scene(seed: int) -> ScenePlan:
    """The plan of a scene: a pure function of the seed, and cheap compared with drawing it."""
    rng = np.random.default_rng([SCENE_SEED, seed])
    place = vocabulary.PLACES[seed % len(vocabulary.PLACES)]
    weather = str(rng.choice(vocabulary.WEATHERS))
    actor = make_actor(rng) if rng.random() < 0.9 else None
    sign = make_sign(rng, str(rng.choice(vocabulary.SIGNS))) if rng.random() < 0.4 else None
    look = int(rng.integers(2**31))
    seconds = float(rng.uniform(8, 14))
    clock = float(rng.uniform(0, 600))
    # At whole frames of the world's rate, as a decoder would return them.
    times = [round((i + 0.5) * seconds / FRAMES * drawing.FPS) / drawing.FPS for i in range(FRAMES)]
    crf, big = int(rng.integers(18, 25)), int(rng.integers(FRAMES))
    annotation: dict[str, object] = {
        "place": place,
        "weather": weather,
        "seconds": seconds,
        "actor": actor and {"shape": actor.shape, "color": actor.color, "move": actor.move},
        "actor_boxes": actor and [actor.box(t) for t in times],
        "actor_box": actor and actor.box(times[big]),
        "sign": sign and sign.word,
        "sign_box": sign and sign.box(),
    }
    return ScenePlan((place, weather, actor, sign, look), times, clock, crf, big, annotation)


def scene(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
    """16 small frames of a random scene, one of them at full size, and the scene's facts."""
    plan = plan_scene(seed)
    view = drawing.SceneView(*plan.view)
    frames = encode_and_decode([view.draw(t, plan.clock + t) for t in plan.times], plan.crf)
    return (
        np.stack([downscale(f) for f in frames]),
        frames[plan.big].to_ndarray(format="rgb24"),
        plan.annotation,
    )


def drawn_frames(plan: Script, count: int = FRAMES) -> list[tuple[float, Scene, float]]:
    """For each of `count` frames uniform over a video: its time (s), scene, and time within the scene (s)."""
    rows = []
    for i in range(count):
        time = (i + 0.5) * plan.duration / count
        at = next(s for s in plan.scenes if s.start <= time < s.end)
        rows.append((time, at, int(time * drawing.FPS) / drawing.FPS - at.start))
    return rows


def whole_video(seed: int) -> tuple[np.ndarray, dict[str, object]]:
    """16 small frames, uniform over a whole random video, and the video's length, seed and times."""
    length = LENGTHS[seed % len(LENGTHS)]
    plan = make_script(length, VIDEO_SEED + seed)
    rng = np.random.default_rng([VIDEO_SEED, seed])
    pictures, times = [], []
    for time, at, inside in drawn_frames(plan):
        view = drawing.SceneView(at.place, plan.weather, at.actor, at.sign, at.seed)
        pictures.append(view.draw(inside, at.start + inside))
        times.append(time)
    frames = encode_and_decode(pictures, int(rng.integers(18, 25)))
    return np.stack([downscale(f) for f in frames]), {
        "length": length,
        "seed": VIDEO_SEED + seed,
        "times": times,
    }


def draw_pool(folder: Path, scene_count: int = 5000, video_count: int = 3000) -> None:
    """Draw, encode, decode and write the frames of single scenes and of whole videos. A pool that is complete
    stays as it is."""
    if (folder / _LAST).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    height, width = FRAME_SIZE

    def array(name: str, *shape: int) -> np.ndarray:
        return np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.uint8, shape)

    # Processes, not threads: drawing is Python and NumPy, which hold the interpreter's lock.
    with ProcessPoolExecutor() as pool:
        clips = array("scenes", scene_count, FRAMES, height, width, 3)
        stills = array("stills", scene_count, drawing.HEIGHT, drawing.WIDTH, 3)
        annotations = []
        for i, (frames, still, annotation) in counted(
            enumerate(pool.map(scene, range(scene_count), chunksize=16)), "scenes", scene_count
        ):
            clips[i], stills[i] = frames, still
            annotations.append(annotation)
        (folder / "scenes.json").write_text(json.dumps(annotations))
        videos = array("videos", video_count, FRAMES, height, width, 3)
        annotations = []
        for i, (frames, annotation) in counted(
            enumerate(pool.map(whole_video, range(video_count), chunksize=16)), "videos", video_count
        ):
            videos[i] = frames
            annotations.append(annotation)
        (folder / _LAST).write_text(json.dumps(annotations))
