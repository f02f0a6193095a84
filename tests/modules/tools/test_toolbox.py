"""The modules as tools: what is offered, JSON in and out, ids, pictures, budgets, errors and evidence."""

from __future__ import annotations

import base64
import inspect
import io
import json
import re
import shutil
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.making_videos import read_number
from tests.support.numbered import LINES, FixedIndex, ReadingBackbone, context, video
from videopro.errors import BackboneError, Cancellation, Cancelled, ConfigError, VideoProError, cancellable
from videopro.modules.calls import MODULES, OPEN_MODULES, Parameter, arguments
from videopro.modules.models.ocr import TextRegion
from videopro.modules.tools import Budget, VideoTools, open_video, reply_parts
from videopro.modules.tools.schemas import module_parameters, parameter_schema

SCORES = {"a lamp": (0.1, 0.9, 0.2, 0.8, 0.0, 0.3)}


class LampDetector:
    """Sees a lamp in the lower right quarter of any picture."""

    def identity(self) -> object:
        return "lamp"

    def frame_size(self, height: int, width: int) -> tuple[int, int] | None:
        return None

    def detect(self, frame: Any, text: str, **thresholds: float) -> list[Any]:
        return [SimpleNamespace(box=(0.5, 0.5, 1.0, 1.0), label="lamp", score=0.75)]


class SignReader:
    """Reads EXIT in any picture."""

    def identity(self) -> object:
        return "sign"

    def read(self, image: np.ndarray) -> list[TextRegion]:
        return [TextRegion("EXIT", (0, 0, 1, 1), 0.5)]


def tools(budget: Budget | None = None, *, only: list[str] | None = None, **models: Any) -> VideoTools:
    models.setdefault("index", FixedIndex(SCORES))
    return VideoTools(context(models.pop("backbone", None), **models), budget or Budget(), only=only)


def result(reply: dict[str, Any]) -> Any:
    assert "error" not in reply, reply
    return reply["result"]


def error(reply: dict[str, Any]) -> str:
    assert set(reply) <= {"error", "left"}
    return f"{reply['error']['type']}: {reply['error']['message']}"


# ---- what is offered --------------------------------------------------------------------------------------


def test_only_what_the_video_and_the_models_allow_is_offered() -> None:
    bare = tools(index=None, subtitles=None)
    assert "run_ocr" not in bare.names
    assert "get_informative_clips" not in bare.names
    assert "get_informative_subtitles" not in bare.names
    assert {"query_frames", "trim_around", "crop", "look"} <= set(bare.names)
    # What programs of other releases call, or put together.
    assert not {"make_result", "query_mcq", "video_clip"} & set(tools().names)
    assert tools(only=["look", "trim_frames"]).names == ["look", "trim_frames"]
    with pytest.raises(ConfigError, match=r"no tool 'trim_frame'.*did you mean 'trim_frames'\?"):
        tools(only=["trim_frame"])


def test_a_schema_says_what_the_signature_and_the_docstring_say() -> None:
    schemas = {each["function"]["name"]: each for each in tools().schemas()}
    assert json.loads(json.dumps(schemas)) == schemas
    about = schemas["trim_around"]["function"]
    assert (schemas["trim_around"]["type"], about["name"]) == ("function", "trim_around")
    assert about["description"] == (
        "Take num_frames frames from the `intervals` seconds around `timestamp` (seconds), half before and "
        "half after. Returns a list of frames, each as JSON: id, time, width, height, subtitles."
    )
    pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    video = 'the id of a clip or line, [start, end] in seconds, or "video" for all of it'
    seconds = {"type": "number", "description": "seconds"}
    assert about["parameters"] == {
        "type": "object",
        "properties": {
            "video": {"anyOf": [{"type": "string"}, pair], "description": video, "default": "video"},
            "timestamp": seconds,
            "intervals": {**seconds, "exclusiveMinimum": 0, "default": 30},
            "num_frames": {"type": "integer", "minimum": 1, "maximum": 1024, "default": 64},
        },
        "required": ["timestamp"],
        "additionalProperties": False,
    }


def test_every_built_in_argument_has_a_schema_with_the_limit_of_its_check() -> None:
    for module in (*MODULES.values(), *OPEN_MODULES.values()):
        if module.is_documented and module.name != "make_result":
            for name, schema in module_parameters(module)["properties"].items():
                assert {"type", "anyOf"} & schema.keys(), (module.name, name)
    for name, most in {"FrameCount": arguments.MAX_FRAMES_PER_CALL, "WordCount": arguments.MAX_WORDS}.items():
        kind: Any = typing.get_args(getattr(arguments, name))[1]
        assert parameter_schema(Parameter("x", kind))["maximum"] == most


def test_functions_have_the_signature_of_their_tools() -> None:
    functions = {function.__name__: function for function in tools().functions()}
    trim = functions["trim_frames"]
    assert str(inspect.signature(trim)) == (
        "(start: float, end: float, video: str | list[float] = 'video', num_frames: int = 64) -> str"
    )
    assert typing.get_type_hints(trim)["num_frames"] is int
    assert "\n\nArgs:\n    video: the id of a clip or line" in (trim.__doc__ or "")
    assert [each["time"] for each in json.loads(trim(0, 20, num_frames=2))["result"]] == [5.0, 15.0]


# ---- calls ------------------------------------------------------------------------------------------------


def test_ids_of_one_call_are_arguments_of_the_next() -> None:
    backbone = ReadingBackbone()
    film = tools(backbone=backbone)
    clips = result(film.call("get_informative_clips", query="a lamp", top_k=2))
    # The two best of the scores above, in order of time; 10 seconds each.
    assert [(clip["id"], clip["start"], clip["end"], clip["score"]) for clip in clips] == [
        ("clip-1", 10.0, 20.0, 0.9),
        ("clip-2", 30.0, 40.0, 0.8),
    ]
    assert clips[1]["subtitles"] == LINES[2].text
    frames = result(film.call("extract_frames", video="clip-2", num_frames=2))
    assert [(frame["id"], frame["time"]) for frame in frames] == [("frame-1", 32.5), ("frame-2", 37.5)]
    reply = film.call("query_mc", frames=["frame-2"], question="Which?", choices=["red", "green", "blue"])
    # Picture 4 x 37.5 = 150 is shown then, and 150 modulo 3 is 0: the first choice.
    assert backbone.seen == [[150]]
    answer = result(reply)
    assert (answer["answer"], answer["choice"], answer["confidence"]) == ("A", "red", 0.8)
    assert answer["probabilities"] == {"A": 0.8, "B": 0.05, "C": 0.05}
    # The whole object, as some models pass it, and the same frame again: the same id.
    half = result(film.call("crop_left", frame=frames[0]))
    assert (half["id"], half["time"]) == ("frame-3", 32.5)
    assert result(film.call("extract_frames", video="clip-2", num_frames=2)) == frames


def test_times_and_intervals_stand_for_frames_and_clips() -> None:
    backbone = ReadingBackbone()
    film = tools(backbone=backbone)
    result(film.call("query_frames", frames=[3, 2.5], question="What?"))
    # Pictures 10 and 12, in order of time.
    assert backbone.seen == [[10, 12]]
    frames = result(film.call("extract_frames", video=[10, 14], num_frames=2))
    assert [frame["time"] for frame in frames] == [11.0, 13.0]
    assert result(film.call("extract_frames", video={"start": 10, "end": 14}, num_frames=2)) == frames
    assert result(film.call("get_informative_subtitles", query="lantern", total_duration=None)) == [
        {"id": "line-1", "start": 12.0, "end": 14.0, "duration": 2.0, "score": pytest.approx(1, abs=2)}
        | {"text": LINES[1].text}
    ]


def test_pictures_come_on_request_in_the_format_and_size_asked_for() -> None:
    film = tools()
    reply = film.call("look", frames=[5, 1.25, 5], side=16, format="png")
    assert [(image["id"], image["time"], image["mime_type"]) for image in reply["images"]] == [
        ("frame-1", 1.25, "image/png"),
        ("frame-2", 5.0, "image/png"),
    ]
    shown = [Image.open(io.BytesIO(base64.b64decode(image["data"]))) for image in reply["images"]]
    assert [max(picture.size) for picture in shown] == [16, 16]
    assert film.used["frames"] == 2
    (jpeg,) = film.call("look", frames="frame-1")["images"]
    picture = Image.open(io.BytesIO(base64.b64decode(jpeg["data"])))
    assert (picture.format, picture.size) == ("JPEG", (video().width, video().height))
    assert read_number(np.asarray(picture)) == 5
    # A model reads the text; the picture is a part of its own.
    text, label, image = reply_parts(film.call("look", frames=5.0))
    assert "images" not in json.loads(text["text"])
    assert label["text"] == "frame-2, 5 s:"
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("extract_frame", {}, "there is no tool 'extract_frame'; did you mean 'extract_frames'?"),
        ("make_result", {}, "there is no tool 'make_result'; known: "),
        ("extract_frames", {"video": "clip-7"}, "no object with the id 'clip-7'; the ids so"),
        ("extract_frames", {"video": [40, 20]}, "[40, 20] is no part of the video, which"),
        ("extract_frames", {"count": 2}, "unexpected keyword argument 'count'; call extract_frames("),
        ("look", {"frames": 61}, "frames: 61 s lies outside the video, which goes from 0 to 60 s"),
        ("look", {"frames": list(range(33))}, "these are 33 frames; give at most 32"),
        ("look", {"frames": 1, "format": "gif"}, "format is 'gif'; give jpeg or png"),
        ("look", {"frames": 1, "side": 15}, "side is 15; give 16 to 4096 pixels"),
        ("run_ocr", {"frame": 1}, "UnavailableError: run_ocr() cannot be used: no OCR model is set up"),
        ("query_frames", {"frames": 1, "question": "(refuse)"}, "BackboneError: query_frames(): "),
        ("query_yn", {"frames": 1, "question": "(bug)"}, "UnexpectedError: query_yn() failed unexpectedly"),
    ],
)
def test_an_error_says_what_to_do(name: str, arguments: dict[str, Any], message: str) -> None:
    def write(request: Any) -> str:
        if "(refuse)" in request.text:
            raise BackboneError("no model")
        return "grey"

    film = tools(backbone=ReadingBackbone(writes=write))
    assert message in error(film.call(name, **arguments))
    # The next call works, and the log has both.
    assert len(result(film.call("extract_frames", num_frames=3))) == 3
    assert [call["name"] for call in film.calls] == [name, "extract_frames"]
    assert message in error(film.calls[0]["reply"])


def test_arguments_that_are_no_json_object_are_an_error_too() -> None:
    film = tools()
    assert "the arguments are not JSON" in error(film.call_text("look", '{"frames": [1, 2'))
    assert "must be a JSON object" in error(film.call_text("look", "[1]"))
    assert result(film.call_text("look", '{"frames": 1}'))[0]["time"] == 1.0


def test_the_log_is_bounded_json_whatever_was_passed() -> None:
    film = tools()
    cycle: list[Any] = []
    cycle.append(cycle)
    long: list[Any] = ["x" * 200_000, [0.5] * 50_000, {"k" * 200_000: 1}]
    not_json: list[Any] = [
        *(float("nan"), float("-inf"), [float("nan")], 10**400, [10**400], [10**5000]),
        *(b"bytes", {1, 2}, object(), cycle, {(1, 2): 3}, [{"a": {3}}]),
    ]
    for value in long:
        message = error(film.call("get_informative_clips", query=value, video=[0, 60]))
        assert re.search(r"the arguments have 2\d\d,\d\d\d .*give at most 100,000", message), message
    for value in not_json:
        assert "what JSON cannot (" in error(film.call("extract_frames", query=value))
    assert all(call["arguments"] == {} for call in film.calls)
    assert "there is no tool 'zzz" in error(film.call("z" * 200_000))
    many = {f"{'n' * 10_000}{number}": number for number in range(100)}
    assert "characters; give at most 100,000" in error(film.call("look", **many))
    # What JSON holds is there as it was passed, but for halves of characters, which no file takes.
    error(film.call("extract_frames", query=["a\ud800b", {"1": (2.5, None)}, "é"]))
    assert film.calls[-1]["arguments"]["query"] == ["a\ufffdb", {"1": [2.5, None]}, "é"]
    assert len(json.dumps(film.calls, allow_nan=False, ensure_ascii=False).encode()) < 50_000


# ---- budget, evidence, threads ----------------------------------------------------------------------------


def test_a_budget_refuses_what_it_does_not_allow_and_says_what_is_left() -> None:
    film = tools(Budget(calls=4, frames=10))
    assert film.call("look", frames=[1, 2, 3])["left"] == {"calls": 3, "frames": 7}
    refused = error(film.call("look", frames=list(range(8))))
    assert "8 frames, and 7 of the 10 of the budget are left" in refused
    assert film.call("look", frames=list(range(7)))["left"] == {"calls": 1, "frames": 0}
    assert "0 of the 10" in error(film.call("look", frames=1))
    assert "the budget of 4 calls is used up" in error(film.call("extract_frames"))
    assert (film.used["calls"], film.used["frames"]) == (4, 10)
    assert film.left == {"calls": 0, "frames": 0}
    slow = tools(Budget(seconds=1e-9))
    result(slow.call("extract_frames"))
    assert "the budget of 1e-09 seconds is used up" in error(slow.call("extract_frames"))
    with pytest.raises(ConfigError, match="calls is 0"):
        Budget(calls=0)


def test_evidence_has_times_boxes_and_texts() -> None:
    film = tools(detector=LampDetector(), ocr=SignReader())
    film.call("get_informative_clips", query="a lamp", top_k=1)
    film.call("get_informative_subtitles", query="lantern")
    film.call("crop_right", frame=2.0)
    film.call("detect_object", frame="frame-1", text="lamp")
    film.call("run_ocr", frame=4.0)
    film.call("query_yn", frames=[1.0, 3.0], question="Is it 12?")
    film.call("look", frames="frame-9")

    def piece(kind: str, source: str, start: float, end: float, **more: Any) -> dict[str, Any]:
        empty = {"time": None, "box": None, "text": None}
        return {"kind": kind, "start": start, "end": end, **empty, "source": source} | more

    assert film.evidence == [
        piece("interval", "call 1 get_informative_clips", 10.0, 20.0),
        piece("subtitle", "call 2 get_informative_subtitles", 12.0, 14.0, text=LINES[1].text),
        # The lower right quarter of the right half, in shares of the whole picture.
        piece("box", "call 4 detect_object", 2.0, 2.0, time=2.0, box=[0.75, 0.5, 1.0, 1.0], text="lamp"),
        piece("text", "call 5 run_ocr", 4.0, 4.0, time=4.0, text="EXIT"),
        piece("frames", "call 6 query_yn", 1.0, 3.0),
    ]
    json.dumps([film.evidence, film.calls])
    assert [frame["time"] for frame in film.calls[5]["frames"]] == [1.0, 3.0]


def test_a_cancelled_call_is_not_made() -> None:
    film, cancellation = tools(), Cancellation()
    cancellation.cancel()
    with cancellable(cancellation), pytest.raises(Cancelled):
        film.call("look", frames=1)


# ---- opening ----------------------------------------------------------------------------------------------


@pytest.fixture
def film_file(tmp_path: Path) -> Path:
    file = tmp_path / "film.mp4"
    shutil.copy(video().path, file)
    (tmp_path / "film.en.srt").write_text("1\n00:00:02,000 --> 00:00:04,000\nA bell rings.\n")
    return file


def test_without_a_model_an_agent_reads_and_looks_itself(film_file: Path) -> None:
    film = open_video(film_file, models={"ocr": "none"})
    assert {"get_informative_subtitles", "look", "trim_frames", "crop"} <= set(film.names)
    assert not {"query_native", "query_frames", "get_informative_clips", "detect_object"} & set(film.names)
    assert (film.video["has_subtitles"], film.video["duration"]) == (True, 60.0)
    (line,) = result(film.call("get_informative_subtitles", query="bell"))
    assert (line["start"], line["text"]) == (2.0, "A bell rings.")
    assert "this run is without reasoning" in error(film.call("query_frames", frames=1, question="?"))
    assert not open_video(film_file, subtitles=False, models={"ocr": "none"}).video["has_subtitles"]


@pytest.mark.parametrize(
    ("models", "named"),
    [
        ("pocket", "knows the generated pocket videos only"),
        ({"encodr": "none"}, "'encodr'"),
        ({"backbone": {"frames": 8}}, "'backbone'"),
        ({"detector": "backbone"}, "detector 'backbone'"),
    ],
)
def test_models_that_do_not_fit_are_refused(film_file: Path, models: Any, named: str) -> None:
    with pytest.raises(VideoProError, match=named):
        open_video(film_file, models=models)
