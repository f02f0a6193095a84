"""The models behind modules: tiny checkpoints of the real classes, RapidOCR itself, boxes as VideoLLMs write
them."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from tests.support import tiny_models
from tests.support.numbered import ReadingBackbone, library, noise
from videopro.errors import ConfigError
from videopro.modules.errors import ArgumentError, ModelError
from videopro.modules.models import load_detector, load_ocr, load_tracker
from videopro.modules.models.detection import (
    BackboneDetector,
    Detection,
    Detector,
    GroundingDino,
    parse_boxes,
)
from videopro.modules.models.hub import device_of
from videopro.modules.models.ocr import RapidOcr, TextRegion, sort_reading_order
from videopro.modules.models.tracking import DetectionTracker, Sam3Tracker, Track, link_detections
from videopro.video import Frame

# ---- Grounding DINO --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dino() -> GroundingDino:
    return GroundingDino(str(tiny_models.grounding_dino()), device="cpu")


def test_grounding_dino_gives_what_the_model_computes(dino: GroundingDino) -> None:
    from transformers import GroundingDinoForObjectDetection, GroundingDinoProcessor

    image = noise(48, 64)
    model = GroundingDinoForObjectDetection.from_pretrained(tiny_models.grounding_dino()).eval()
    processor = GroundingDinoProcessor.from_pretrained(tiny_models.grounding_dino())
    with torch.inference_mode():
        raw = model(**processor(images=Image.fromarray(image), text="a red cat.", return_tensors="pt"))
    # By hand from the model's definition: sigmoid over words, boxes as centre and size in shares.
    scores = raw.logits[0].sigmoid().max(-1).values
    expected = {}
    for score, (x, y, w, h) in zip(scores.tolist(), raw.pred_boxes[0].tolist(), strict=True):
        if score > 0.5:
            corners = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
            expected[round(score, 5)] = [min(max(value, 0.0), 1.0) for value in corners]
    assert 3 <= len(expected) < 12
    found = dino.detect(Frame(image, 0.0), "A red CAT", box_threshold=0.5, text_threshold=0.1)
    assert [round(detection.score, 5) for detection in found] == sorted(expected, reverse=True)
    for detection in found:
        assert list(detection.box) == pytest.approx(expected[round(detection.score, 5)], abs=1e-4)
        # The words above the threshold, or, without any, the whole query.
        assert set(detection.label.split()) <= {"a", "red", "cat"} or detection.label == "A red CAT"


@pytest.mark.parametrize("narrow", [False, True], ids=["fp32", "bf16"])
def test_pictures_of_a_batch_have_the_detections_of_single_ones(
    dino: GroundingDino, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroundingDino, "_is_narrow", property(lambda self: narrow))
    pictures = [Frame(noise(48, 64, seed=seed), float(seed)) for seed in range(5)]
    monkeypatch.setattr("videopro.modules.models.detection._PICTURES", 3)
    passes = []
    hook = dino._model.register_forward_hook(lambda *_: passes.append(1))
    thresholds = {"box_threshold": 0.5, "text_threshold": 0.1}
    try:
        together = dino.detect_batch(pictures, "a red cat", **thresholds)
        assert len(passes) == 2
        for picture, detections in zip(pictures, together, strict=True):
            alone = dino.detect(picture, "a red cat", **thresholds)
            assert len(alone) == len(detections) > 0
            for left, right in zip(alone, detections, strict=True):
                assert left.score == pytest.approx(right.score, abs=1e-2 if narrow else 1e-5)
                assert left.box == pytest.approx(right.box, abs=2e-2 if narrow else 1e-4)
    finally:
        hook.remove()
    assert ("bfloat16" in dino.identity()) == narrow  # type: ignore[operator]


def test_models_that_are_not_there_and_unknown_specs_are_named(tmp_path: Path) -> None:
    for load in (
        lambda: GroundingDino(str(tmp_path / "none")),
        lambda: Sam3Tracker(str(tmp_path)),
        lambda: load_detector("grounding-dino:no/such-model-here", ReadingBackbone()),
    ):
        with pytest.raises(ModelError, match=r"cannot be loaded .*; pass a hub name"):
            load()
    for spec in ("dino", "grounding-dino:", "backbone:x", ""):
        with pytest.raises(ConfigError, match="grounding-dino:NAME"):
            load_detector(spec, ReadingBackbone())
        with pytest.raises(ConfigError, match="sam3:NAME"):
            load_tracker(spec, None)
        with pytest.raises(ConfigError, match="rapidocr"):
            load_ocr(spec)
    with pytest.raises(ModelError, match="needs a detector"):
        load_tracker("detector", None)


# ---- SAM 3 -----------------------------------------------------------------------------------------------


SAM3_FRAMES = [Frame(noise(48, 64, seed), float(seed)) for seed in range(2)]


@pytest.fixture(scope="module")
def sam3_tracks() -> list[Track]:
    """What it tracks in SAM3_FRAMES."""
    tracker = load_tracker(f"sam3:{tiny_models.sam3()}", None, device="cpu")
    assert tracker.identity() == ["sam3", str(tiny_models.sam3())]
    # As large as frames are.
    assert tracker.frame_size(48, 64) is None
    return tracker.track(SAM3_FRAMES, "a red cat")


def rounded(boxes: Sequence[tuple[float, ...] | None]) -> tuple[object, ...]:
    return tuple(None if box is None else tuple(np.round(box, 6)) for box in boxes)


def test_sam3_tracks_objects_through_frames(sam3_tracks: list[Track]) -> None:
    from transformers import Sam3VideoModel, Sam3VideoProcessor

    name, frames, tracks = str(tiny_models.sam3()), SAM3_FRAMES, sam3_tracks
    # The same through transformers' own loop, with bounds taken by hand from the masks that the model gives.
    model, processor = Sam3VideoModel.from_pretrained(name).eval(), Sam3VideoProcessor.from_pretrained(name)
    session = processor.init_video_session(video=[Image.fromarray(frame.image) for frame in frames])
    session = processor.add_text_prompt(session, "a red cat")
    expected: dict[int, list[tuple[float, ...] | None]] = {}
    for output in model.propagate_in_video_iterator(session):
        for object_id, small in output.obj_id_to_mask.items():
            large = torch.nn.functional.interpolate(small[None], (48, 64), mode="bilinear")[0, 0]
            mask = (large > 0).numpy()
            if mask.any() and object_id not in (output.suppressed_obj_ids or ()):
                rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
                bounds = (columns[0] / 64, rows[0] / 48, (columns[-1] + 1) / 64, (rows[-1] + 1) / 48)
                expected.setdefault(object_id, [None] * len(frames))[output.frame_idx] = bounds
    assert len(tracks) == len(expected) >= 2
    assert all(0 < track.score <= 1 for track in tracks)
    firsts = [next(i for i, box in enumerate(track.boxes) if box) for track in tracks]
    assert firsts == sorted(firsts)
    assert {rounded(track.boxes) for track in tracks} == {rounded(own) for own in expected.values()}
    # Not only masks that fill the picture.
    assert any(box not in (None, (0.0, 0.0, 1.0, 1.0)) for track in tracks for box in track.boxes)


class Mover(Detector):
    """Finds one object, a tenth of the frame further right every second; at 3 s none."""

    def identity(self) -> object:
        return "mover"

    def _detect(self, pictures: Sequence[Frame], text: str, **thresholds: float) -> list[list[Detection]]:
        boxes = [(picture.time / 10, 0.5, picture.time / 10 + 0.1, 1.0) for picture in pictures]
        found = [[Detection(box, 0.9, text)] for box in boxes]
        return [[] if picture.time == 3.0 else each for picture, each in zip(pictures, found, strict=True)]


def test_tracks_in_a_program_have_times_and_pixels() -> None:
    lib = library(tracker=DetectionTracker(Mover()))
    fns = lib.functions()
    frames = fns["trim_frames"](lib.video, 0.5, 5.5, num_frames=5)
    (track,) = fns["track_object"](frames, "ball")
    assert (track.object, track.label, track.start, track.end) == (1, "ball", 1.0, 5.0)
    assert track.times == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert track.boxes[0] == pytest.approx((12.8, 32, 25.6, 64))
    assert track.boxes[2] is None
    assert track.boxes[4] == pytest.approx((64, 32, 76.8, 64))
    with pytest.raises(ArgumentError, match="crops of different places"):
        fns["track_object"]([fns["crop_left"](frames[0]), fns["crop_right"](frames[1])], "ball")


def test_linking_keeps_objects_apart_and_drops_far_jumps() -> None:
    # Two that pass each other's start, one missing for a frame, one that appears far away.
    seen = [[0.0, 0.5], [0.52, 0.05], [0.54], [0.56, 0.12, 0.9]]
    tracks = link_detections([[Detection((x, 0.4, x + 0.1, 0.5), x, "ball") for x in each] for each in seen])
    starts = [[None if box is None else box[0] for box in track.boxes] for track in tracks]
    assert starts == [[0.0, 0.05, None, 0.12], [0.5, 0.52, 0.54, 0.56], [None, None, None, 0.9]]
    assert [track.score for track in tracks] == [0.12, 0.56, 0.9]
    assert link_detections([[], []]) == []


# ---- boxes that a VideoLLM writes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "boxes"),
    [
        ('{"bbox_2d": [10, 20, 30, 40]}', [(10, 20, 30, 40)]),
        ('[{"bbox_2d": [1, 2, 3, 4]}, {"bbox_2d": [5, 6, 7, 8]}]', [(1, 2, 3, 4), (5, 6, 7, 8)]),
        ('Here it is: {"bbox_2d": [30, 40, 10, 20], "label": "[a]"} as asked.', [(10, 20, 30, 40)]),
        ("[[1, 2, 3, 4], [5, 6, 7, 8.5]]", [(1, 2, 3, 4), (5, 6, 7, 8.5)]),
        # Cut off in the second box: the first stands.
        ('[{"bbox_2d": [1, 2, 3, 4], "label": "cat"}, {"bbox_2d": [5, 6,', [(1, 2, 3, 4)]),
        ("There is no cat.", []),
        ('{"bbox_2d": [1, 2, 3]}', []),
        ('{"bbox_2d": [1, 2, 3, NaN]}', []),
        ('{"bbox_2d": ["1", 2, 3, 4]}', []),
        ("[" * 5000, []),
    ],
)
def test_boxes_are_read_out_of_replies(reply: str, boxes: list[tuple[float, ...]]) -> None:
    assert parse_boxes(reply) == boxes


def writing(reply: str, **settings: Any) -> ReadingBackbone:
    return ReadingBackbone(writes=lambda request: reply, **settings)


def test_a_backbones_own_boxes_relative_to_a_thousand() -> None:
    reply = json.dumps([{"bbox_2d": [250, 500, 750, 1000]}, {"bbox_2d": [0, 0, 1200, 100]}])
    backbone = writing(reply, logprob=np.log(0.8))
    detector = BackboneDetector(backbone)
    lib = library(backbone, detector=detector)
    fns = lib.functions()
    (frame,) = fns["extract_frames"](lib.video, 1)
    first, second = fns["detect_object"](frame, "ring")
    assert (first.x0, first.y0, first.x1, first.y1) == (32, 32, 96, 64)
    assert (second.x0, second.y0, second.x1, second.y1) == (0, 0, 128, 6.4)
    assert (first.score, first.label) == (0.8, "ring")
    assert fns["crop"](frame, first).box == (32, 32, 96, 64)
    assert backbone.prompts[0].startswith("Locate the ring in the image.")
    fns["detect_object"](frame, "A ring")
    assert backbone.prompts[-1] == backbone.prompts[0]
    assert fns["detect_object"](frame, "ring", box_threshold=0.9) == []
    # A crop is a picture of its own.
    (box, _) = fns["detect_object"](fns["crop_right"](frame), "ring")
    assert (box.x0, box.x1) == (16, 48)
    (crop,) = backbone.shown[-1]
    assert (crop.box, crop.image.shape) == (None, (64, 64, 3))
    # Of several pictures at once.
    pictures = [Frame(noise(48, 64, seed=seed), float(seed)) for seed in range(3)]
    found = detector.detect_batch(pictures, "ring", box_threshold=0.1, text_threshold=0.1)
    assert backbone.batches[-1] == 3
    assert [each[0].box for each in found] == [(0.25, 0.5, 0.75, 1.0)] * 3


def test_qwen25_writes_pixels_of_what_it_gets() -> None:
    reply = '{"bbox_2d": [28, 14, 56, 28]}'

    def box(backbone: ReadingBackbone, height: int, width: int) -> tuple[float, ...]:
        frame = Frame(noise(height, width), 0.0)
        (found,) = BackboneDetector(backbone).detect(frame, "ring", box_threshold=0.5, text_threshold=0.2)
        return found.box

    backbone = writing(reply, logprob=0.0, size=(28, 56), name="Qwen/Qwen2.5-VL-7B-Instruct")
    assert box(backbone, 96, 192) == (0.5, 0.5, 1.0, 1.0)
    assert backbone.shown[0][0].image.shape == (28, 56, 3)
    # A server resizes by itself: the picture goes in a size that Qwen2.5-VL's processor keeps.
    served = writing(reply, logprob=0.0, name="qwen2_5_vl")
    found = box(served, 100, 203)
    height, width = served.shown[0][0].image.shape[:2]
    assert (height % 28, width % 28) == (0, 0)
    assert found == (28 / width, 14 / height, 56 / width, 28 / height)
    with pytest.raises(ModelError, match="use grounding-dino"):
        BackboneDetector(writing(reply, name="Qwen/Qwen2-VL-7B-Instruct"))


# ---- OCR -------------------------------------------------------------------------------------------------


def test_rapidocr_reads_lines_in_order() -> None:
    image = Image.new("RGB", (320, 160), (235, 235, 225))
    for text, place in (("EXIT", (200, 20)), ("HARBOR", (20, 20)), ("Gate 42", (20, 100))):
        ImageDraw.Draw(image).text(place, text, font=ImageFont.load_default(28), fill=(20, 20, 30))
    reader = RapidOcr()
    words = reader.read(np.asarray(image))
    assert " ".join(region.text for region in words) == "HARBOR EXIT Gate 42"
    assert reader.identity()[0] == "rapidocr"  # type: ignore[index]
    x0, y0, x1, y1 = words[0].box
    assert 0 < x0 < 0.12 < x1 < 0.55
    assert 0.05 < y0 < y1 < 0.4
    assert reader.read(np.full((48, 64, 3), 128, dtype=np.uint8)) == []


@pytest.mark.parametrize(("cores", "at_a_time"), [(2, 1), (8, 4), (64, 8)])
def test_a_machine_with_cores_to_spare_reads_several_pictures_at_a_time(
    monkeypatch: pytest.MonkeyPatch, cores: int, at_a_time: int
) -> None:
    """A stand-in engine reads only when as many as there may be are reading, and never beside more."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)))
    together = threading.Barrier(at_a_time)
    engines: list[object] = []
    busy: Counter[int] = Counter()

    class StandIns(RapidOcr):
        def _engine(self) -> Any:
            number = len(engines)
            engines.append(number)

            def read(image: np.ndarray) -> SimpleNamespace:
                busy[number] += 1
                assert busy[number] == 1
                together.wait(20)
                busy[number] -= 1
                return SimpleNamespace(boxes=None)

            return read

    reader = StandIns()
    pictures = [np.full((48, 64, 3), value, dtype=np.uint8) for value in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(reader.read, pictures)) == [[]] * 8
    assert len(engines) == at_a_time


def test_reading_order() -> None:
    places = {"d": (0.5, 0.52), "a": (0.1, 0.11), "c": (0.1, 0.5), "b": (0.6, 0.1), "e": (0.0, 0.9)}
    words = [TextRegion(text, (x, y, x + 0.1, y + 0.1), 1.0) for text, (x, y) in places.items()]
    assert "".join(region.text for region in sort_reading_order(words)) == "abcde"


def test_a_models_gpu_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    # "cuda" alone is another one in each thread.
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    assert device_of(None) == "cuda:1"
    assert device_of("cuda:0") == "cuda:0"
