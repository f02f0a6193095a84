"""The tools for agents: what is offered, JSON in and out, images, budgets, errors and evidence."""

import base64
import inspect
import io
import json
import re
import shutil
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

import videopro
from tests.support import ROOT
from tests.support.making_videos import read_number
from tests.support.numbered import LINES, FixedIndex, ReadingBackbone, context, video
from videopro.errors import BackboneError, Cancellation, Cancelled, ConfigError, VideoProError, cancellable
from videopro.modules.calls import (
    MODULES,
    OPEN_MODULES,
    PLUGIN_MODULES,
    Box,
    CallContext,
    Count,
    Frames,
    Segment,
    SingleFrame,
    Text,
    module,
)
from videopro.modules.models.ocr import TextRegion
from videopro.modules.tools import Budget, VideoTools, open_video, reply_parts

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

ALL = ["search", "look", "read_text", "subtitles", "transcript", "locate", "ask"]


def complete(budget: Budget | None = None, **models: Any) -> VideoTools:
    return tools(budget, **{"detector": LampDetector(), "ocr": SignReader(), **models})


@pytest.mark.parametrize(
    ("lacking", "gone"),
    [
        ({}, set()),
        ({"index": None}, {"search"}),
        ({"ocr": None}, {"read_text"}),
        ({"subtitles": None}, {"subtitles", "transcript"}),
        ({"detector": None}, {"locate"}),
        ({"without": ("answering",)}, {"ask"}),
    ],
)
def test_a_tool_that_cannot_work_is_not_offered_and_says_why(lacking: dict[str, Any], gone: set[str]) -> None:
    toolbox = complete(**lacking)
    assert toolbox.names == [name for name in ALL if name not in gone]
    for name in gone:
        message = error(toolbox.call(name))
        assert re.fullmatch(rf"UnavailableError: {name}\(\) cannot be used: .*; do without it", message)


def test_only_some_tools_are_offered() -> None:
    toolbox = complete(only=["look", "search"])
    assert toolbox.names == ["look", "search"]
    assert "there is no tool 'ask'; known: look, search" in error(toolbox.call("ask", question="Why?"))
    with pytest.raises(ConfigError, match=r"no tool 'serch'.*did you mean 'search'\?"):
        tools(only=["serch"])


def test_no_text_names_a_module_or_a_tool_that_is_not_offered() -> None:
    """Of every tool alone: its schema, and the errors of calls that find nothing or are wrong."""
    modules = {*MODULES, *OPEN_MODULES}
    wrong: list[dict[str, Any]] = [
        *({}, {"x": 1}, {"times": [99]}, {"start": 70}, {"start": 5, "end": 5}, {"query": ""}),
        *({"query": "nothing"}, {"query": "w" * 17_000}, {"query": "a lamp", "start": 50, "end": 51}),
        *({"times": [1], "box": [0, 0, 0, 0]}, {"times": [1] * 33}, {"times": "now"}, {"limit": 0}),
        *({"question": "?", "choices": ["a"]}, {"question": "(refuse)"}, {"text": "lamp"}, {"format": "gif"}),
    ]

    def write(request: Any) -> str:
        raise BackboneError("no model")

    for name in ALL:
        toolbox = complete(only=[name], backbone=ReadingBackbone(writes=write))
        texts = [json.dumps(toolbox.schemas())]
        texts += [json.dumps(toolbox.call(name, **arguments)) for arguments in wrong]
        others = "|".join(each for each in ALL if each != name)
        for text in texts:
            assert not [module for module in modules if re.search(rf"\b{module}\b", text)], text
            assert not re.search(rf"\b({others})\(|[`']({others})[`']", text), text


def test_schemas_are_plain_closed_and_without_line_breaks() -> None:
    schemas = {each["function"]["name"]: each for each in complete().schemas()}
    assert json.loads(json.dumps(schemas)) == schemas
    assert list(schemas) == ALL
    for schema in schemas.values():
        assert schema["function"]["parameters"]["additionalProperties"] is False
        assert '"title"' not in json.dumps(schema)
        for text in re.findall(r'"description": "(.*?)"', json.dumps(schema)):
            assert len(text) < 200
            assert not re.search(r"\\n|  ", text)
    look = schemas["look"]
    assert (look["type"], look["function"]["name"]) == ("function", "look")
    about = look["function"]["parameters"]
    assert about["required"] == []
    assert about["properties"]["format"] == {"enum": ["jpeg", "png"], "default": "jpeg", "type": "string"}
    assert about["properties"]["times"] == {
        "description": "times of frames in seconds",
        "items": {"minimum": 0, "type": "number"},
        "minItems": 1,
        "maxItems": 32,
        "type": "array",
    }
    assert schemas["locate"]["function"]["parameters"]["required"] == ["text", "times"]


def test_functions_have_the_signature_of_their_tools() -> None:
    functions = {function.__name__: function for function in complete().functions()}
    look = functions["look"]
    assert list(inspect.signature(look).parameters) == [
        *("times", "start", "end", "count", "box", "side", "format")
    ]
    assert typing.get_type_hints(look)["count"] is int
    assert inspect.signature(look).parameters["count"].default == 8
    assert "\n\nArgs:\n    times: times of frames in seconds\n" in (look.__doc__ or "")
    assert [each["time"] for each in json.loads(look(end=20, count=2))["result"]["frames"]] == [5.0, 15.0]
    assert "look() takes no 'time'" in look(time=5)


# ---- calls ------------------------------------------------------------------------------------------------


def test_search_gives_clips_in_order_of_time() -> None:
    toolbox = complete()
    # The two best of the scores above; 10 seconds each.
    assert result(toolbox.call("search", query="a lamp", top_k=2))["clips"] == [
        {"start": 10.0, "end": 20.0, "score": 0.9, "subtitles": LINES[1].text},
        {"start": 30.0, "end": 40.0, "score": 0.8, "subtitles": LINES[2].text},
    ]
    # Cut to the part that is searched, and to the video.
    (clip,) = result(toolbox.call("search", query="a lamp", start=35, end=38))["clips"]
    assert (clip["start"], clip["end"]) == (35.0, 38.0)
    assert result(toolbox.call("search", query="a lamp", start=55, end=99))["clips"][0]["end"] == 60.0
    assert result(toolbox.call("search", query="nothing"))["clips"] == []


def test_what_is_said_is_found_and_read_in_order() -> None:
    toolbox = complete()
    lantern = {"start": 12.0, "end": 14.0, "text": LINES[1].text}
    assert result(toolbox.call("subtitles", query="lantern")) == {"lines": [lantern]}
    assert result(toolbox.call("subtitles", query="lantern", start=20)) == {"lines": []}
    read = result(toolbox.call("transcript", start=10, limit=1))
    assert read == {"lines": [lantern], "left_out": 2}
    assert [line["start"] for line in result(toolbox.call("transcript"))["lines"]] == [2.0, 12.0, 30.0, 50.0]


def test_text_and_things_are_found_in_frames() -> None:
    toolbox = complete()
    assert result(toolbox.call("read_text", times=[4, 2], box=[0.5, 0, 1, 1])) == {
        "texts": [{"time": 4.0, "text": "EXIT"}, {"time": 2.0, "text": "EXIT"}]
    }
    assert result(toolbox.call("locate", text="lamp", times=[2])) == {
        "boxes": [{"time": 2.0, "box": [0.5, 0.5, 1.0, 1.0], "label": "lamp", "score": 0.75}]
    }


def test_a_question_is_answered_by_the_choice_or_in_words() -> None:
    toolbox = complete(backbone=ReadingBackbone())
    answer = result(toolbox.call("ask", question="Which?", choices=["red", "green", "blue"]))
    # Eight frames, the middles of eight parts: the first is at 3.75 s, picture 15, and 15 modulo 3 is 0.
    assert (answer["answer"], answer["letter"], answer["confidence"]) == ("red", "A", 0.8)
    assert answer["probabilities"] == {"A": 0.8, "B": 0.05, "C": 0.05}
    # They are 7.5 s apart, so each is a moment: the ones in the middles of six parts of these eight.
    assert {piece["kind"] for piece in answer["evidence"]} == {"frames"}
    assert [piece["time"] for piece in answer["evidence"]] == [3.75, 18.75, 26.25, 33.75, 48.75, 56.25]
    words = result(toolbox.call("ask", question="What?"))
    assert (words["answer"][:5], words["letter"], words["confidence"]) == ("15 45", None, 0.7408)


def test_what_models_write_for_times_is_read() -> None:
    toolbox = complete()
    for times in ([3, 2.5], "[3, 2.5]", ["3", "2.5"]):
        frames = result(toolbox.call("look", times=times, start=None))["frames"]
        # In order of time.
        assert [frame["time"] for frame in frames] == [2.5, 3.0]
    assert len(result(toolbox.call("look", times=5))["frames"]) == 1


def test_images_have_the_format_and_size_asked_for() -> None:
    toolbox = complete()
    reply = toolbox.call("look", times=[5, 1.25, 5], side=16, format="png")
    assert [(image["time"], image["mime_type"]) for image in reply["images"]] == [
        (1.25, "image/png"),
        (5.0, "image/png"),
    ]
    shown = [Image.open(io.BytesIO(base64.b64decode(image["data"]))) for image in reply["images"]]
    assert [max(picture.size) for picture in shown] == [16, 16]
    assert toolbox.used["frames"] == 2
    (jpeg,) = toolbox.call("look", times=[5])["images"]
    picture = Image.open(io.BytesIO(base64.b64decode(jpeg["data"])))
    assert (picture.format, picture.size) == ("JPEG", (video().width, video().height))
    assert read_number(np.asarray(picture)) == 5 * 4
    # A model reads the text; the image is a part of its own.
    text, label, image = reply_parts(toolbox.call("look", times=[5]))
    assert "images" not in json.loads(text["text"])
    assert label["text"] == "5 s:"
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
    (half,) = toolbox.call("look", times=[5], box=[0.5, 0, 1, 1])["images"]
    assert (half["width"], half["height"]) == (video().width // 2, video().height)


@pytest.fixture(scope="module")
def full_of_detail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A 1080p video whose frames have as much detail at each scale as a photograph full of it."""
    rng, (height, width) = np.random.default_rng(0), (1080, 1920)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1

    def pink() -> np.ndarray:
        noise = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((height, width))) / frequency, (height, width))
        return noise / noise.std()

    light = pink()
    picture = np.clip(128 + 55 * np.stack([light + 0.3 * pink() for _ in range(3)], -1), 0, 255)
    file = tmp_path_factory.mktemp("detail") / "detail.mp4"
    with av.open(str(file), "w") as container:
        stream = container.add_stream("libx264", rate=1, options={"crf": "12", "preset": "ultrafast"})
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        frame = av.VideoFrame.from_ndarray(picture.astype(np.uint8), format="rgb24")
        for number in range(40):
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file


def test_the_result_of_look_is_bounded(full_of_detail: Path) -> None:
    toolbox = open_video(full_of_detail, models={"ocr": "none"})
    by_default = toolbox.call("look")
    assert len(result(by_default)["frames"]) == 8
    assert 300_000 < len(json.dumps(by_default)) < 1_000_000
    large = toolbox.call("look", count=32, side=1280, format="png")
    assert error(large) == (
        "ArgumentError: look(): 32 images of this size have more than 8 MB; ask for fewer frames, a smaller "
        "side, or format jpeg"
    )
    assert len(json.dumps(toolbox.call("look", count=32))) < 4_000_000


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("serch", {}, "there is no tool 'serch'; did you mean 'search'?"),
        ("query_mc", {}, "there is no tool 'query_mc'; known: search, look, "),
        (
            "look",
            {"time": [100]},
            "look() takes no 'time'; it takes times, start, end, count, box, side, form",
        ),
        ("ask", {"question": "?", "options": ["a"]}, "ask() takes no 'options'; it takes question, choices"),
        ("look", {"start": 40, "end": 20}, "look(): 40 to 20 s is empty; give start before end, within"),
        ("look", {"times": [1], "start": 1}, "look(): give either times, or start and end"),
        ("look", {"times": 61}, "look(): 61 s is outside the video (0 to 60 s)"),
        ("look", {"times": list(range(33))}, "look(): times: List should have at most 32 items"),
        ("look", {"format": "gif"}, "look(): format: Input should be 'jpeg' or 'png', not 'gif'"),
        ("look", {"side": 15}, "look(): side: Input should be greater than or equal to 16, not '15'"),
        ("look", {"box": [0.5, 0, 0.5, 1]}, "look(): box [0.5, 0.0, 0.5, 1.0] is empty; give x0 < x1 and"),
        ("search", {}, "search(): query: Field required"),
        ("ask", {"question": "(refuse)"}, "BackboneError: ask(): "),
        ("ask", {"question": "(bug)"}, "UnexpectedError: ask() failed unexpectedly"),
    ],
)
def test_an_error_says_what_to_do(name: str, arguments: dict[str, Any], message: str) -> None:
    def write(request: Any) -> str:
        if "(refuse)" in request.text:
            raise BackboneError("no model")
        raise ZeroDivisionError

    toolbox = complete(backbone=ReadingBackbone(writes=write))
    told = error(toolbox.call(name, **arguments))
    assert message in told
    assert "\n" not in told
    # The next call works, and the log has both.
    assert len(result(toolbox.call("look", count=3))["frames"]) == 3
    assert [call["name"] for call in toolbox.calls] == [name, "look"]
    assert message in error(toolbox.calls[0]["reply"])


def test_arguments_that_are_no_json_object_are_an_error_too() -> None:
    toolbox = tools()
    assert "must be a JSON object, not invalid JSON (" in error(toolbox.call_text("look", '{"times": [1, 2'))
    assert "the arguments must be a JSON object, not [1]" in error(toolbox.call_text("look", "[1]"))
    assert result(toolbox.call_text("look", '{"times": 1}'))["frames"][0]["time"] == 1.0


def test_the_log_is_bounded_json_whatever_was_passed() -> None:
    toolbox = tools()
    cycle: list[Any] = []
    cycle.append(cycle)
    long: list[Any] = ["x" * 200_000, [0.5] * 50_000, {"k" * 200_000: 1}]
    not_json: list[Any] = [
        *(float("nan"), float("-inf"), [float("nan")], 10**400, [10**400], [10**5000]),
        *(b"bytes", {1, 2}, object(), cycle, {(1, 2): 3}, [{"a": {3}}]),
    ]
    for value in long:
        message = error(toolbox.call("search", query=value, start=0))
        assert re.search(r"the arguments have 2\d\d,\d\d\d .*give at most 100,000", message), message
    for value in not_json:
        assert "what JSON cannot (" in error(toolbox.call("look", query=value))
    assert all(call["arguments"] == {} for call in toolbox.calls)
    assert "there is no tool 'zzz" in error(toolbox.call("z" * 200_000))
    many = {f"{'n' * 10_000}{number}": number for number in range(100)}
    assert "characters; give at most 100,000" in error(toolbox.call("look", **many))
    assert len(error(toolbox.call("look", **{f"{number}" * 5_000: 1 for number in range(10, 18)}))) < 1_000
    # What JSON holds is there as it was passed, but for halves of characters, which no file takes.
    error(toolbox.call("look", query=["a\ud800b", {"1": (2.5, None)}, "é"]))
    assert toolbox.calls[-1]["arguments"]["query"] == ["a\ufffdb", {"1": [2.5, None]}, "é"]
    assert len(json.dumps(toolbox.calls, allow_nan=False, ensure_ascii=False).encode()) < 150_000


# ---- modules of plug-ins ----------------------------------------------------------------------------------


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plug-ins' modules that take each kind of object, and one that has the name of a tool."""
    for name in ("numbers_in", "between", "look"):
        # Taken off again after the test.
        monkeypatch.setitem(PLUGIN_MODULES, name, MODULES["run_ocr"])

    @module(family="extraction")
    def numbers_in(
        call: CallContext, frames: Frames, first: SingleFrame, box: Box, label: Text = "all", most: Count = 3
    ) -> dict[str, Any]:
        """Read the numbers
        of frames.

        Returns a mapping.
        """
        pictures = call.load_frames([*frames, first])
        numbers = [read_number(picture.image) for picture in pictures]
        return {"numbers": numbers[:most], "box": box, "label": label, "first": first, "nan": float("nan")}

    @module(family="retrieval")
    def between(
        call: CallContext, video: Segment, note: Text | None = None, until: SingleFrame | None = None
    ) -> list[tuple[float, float]]:
        """Tell which part is meant."""
        return [(video.start, video.end if until is None else until.time)]

    @module(family="retrieval")
    def look(call: CallContext, video: Segment) -> str:
        """A name that is taken."""
        return ""


@pytest.mark.usefixtures("plugins")
def test_modules_of_plug_ins_take_times_and_give_plain_json() -> None:
    toolbox = tools(extra=["numbers_in", "between"])
    assert toolbox.names[-2:] == ["numbers_in", "between"]
    about = toolbox.schemas()[-2]["function"]
    assert about["description"] == "Read the numbers of frames. Returns a mapping."
    parameters = about["parameters"]
    assert parameters["required"] == ["frames", "first", "box"]
    assert parameters["additionalProperties"] is False
    assert {name: part["type"] for name, part in parameters["properties"].items()} == {
        "frames": "array",
        "first": "number",
        "box": "array",
        "label": "string",
        "most": "integer",
    }
    made = result(toolbox.call("numbers_in", frames=[1, 2], first=0.5, box=[0, 0, 1, 1], most=2))
    assert made["first"] == {"time": 0.5, "width": 128, "height": 64, "subtitles": ""}
    assert (made["numbers"], made["box"], made["label"], made["nan"]) == ([2, 4], [0, 0, 1, 1], "all", None)
    assert toolbox.evidence[-1]["kind"] == "frames"
    assert (toolbox.evidence[-1]["start"], toolbox.evidence[-1]["end"]) == (0.5, 2.0)
    assert result(toolbox.call("between")) == [[0.0, 60.0]]
    assert result(toolbox.call("between", video=[10, 20])) == [[10.0, 20.0]]
    assert result(toolbox.call("between", video=[10, 20], until=15)) == [[10.0, 15.0]]
    assert toolbox.schemas()[-1]["function"]["parameters"]["properties"]["note"] == {"type": "string"}
    for arguments, says in (
        ({"video": [20, 10]}, "between(): 20 to 10 s is empty"),
        ({"part": [1, 2]}, "between() takes no 'part'; it takes video, note, until"),
        ({"note": 3}, "between(): note must be a text"),
    ):
        assert says in error(toolbox.call("between", **arguments))
    assert "99 s is outside the video" in error(
        toolbox.call("numbers_in", frames=[99], first=1, box=[0, 0, 1, 1])
    )
    with pytest.raises(ConfigError, match=r"look\(\) has the name of a tool"):
        tools(extra=["look"])


def test_the_example_of_a_module_is_a_tool_where_it_is_named(video_file: Path) -> None:
    brightness = str(ROOT / "docs" / "examples" / "brightness.py")
    toolbox = open_video(video_file, models={"ocr": "none", "extra_modules": [brightness]})
    assert 0 < result(toolbox.call("get_brightness", frame=1.5)) < 1


# ---- budget, evidence, threads ----------------------------------------------------------------------------


def test_a_budget_refuses_what_it_does_not_allow_and_says_what_is_left() -> None:
    toolbox = tools(Budget(calls=4, frames=10))
    assert toolbox.call("look", times=[1, 2, 3])["left"] == {"calls": 3, "frames": 7}
    assert "8 frames, and 7 are left; look at fewer" in error(toolbox.call("look", count=8))
    assert toolbox.call("look", count=7)["left"] == {"calls": 1, "frames": 0}
    assert "0 are left; answer from" in error(toolbox.call("look", times=1))
    assert "the budget of 4 calls is used up" in error(toolbox.call("transcript"))
    assert (toolbox.used["calls"], toolbox.used["frames"]) == (4, 10)
    assert toolbox.left == {"calls": 0, "frames": 0}
    slow = tools(Budget(seconds=1e-9))
    result(slow.call("transcript"))
    assert "the budget of 1e-09 seconds is used up" in error(slow.call("transcript"))
    with pytest.raises(ConfigError, match="calls is 0"):
        Budget(calls=0)


def test_evidence_has_times_boxes_and_texts() -> None:
    toolbox = complete()
    toolbox.call("search", query="a lamp", top_k=1)
    toolbox.call("subtitles", query="lantern")
    toolbox.call("locate", text="lamp", times=[2])
    toolbox.call("read_text", times=[4], box=[0.5, 0, 1, 1])
    toolbox.call("look", times=[1, 3])
    toolbox.call("look", times=[99])
    toolbox.call("transcript", limit=1)
    toolbox.call("look", times=[7], box=[0, 0, 0.5, 1])

    def piece(kind: str, source: str, start: float, end: float, **more: Any) -> dict[str, Any]:
        empty = {"time": None, "box": None, "text": None}
        return {"kind": kind, "start": start, "end": end, **empty, "source": source} | more

    lamp = [0.5, 0.5, 1.0, 1.0]
    right = [0.5, 0.0, 1.0, 1.0]
    assert toolbox.evidence == [
        piece("interval", "call 1 search", 10.0, 20.0),
        piece("subtitle", "call 2 subtitles", 12.0, 14.0, text=LINES[1].text),
        piece("box", "call 3 locate", 2.0, 2.0, time=2.0, box=lamp, text="lamp"),
        piece("text", "call 4 read_text", 4.0, 4.0, time=4.0, box=right, text="EXIT"),
        piece("frames", "call 5 look", 1.0, 3.0),
        piece("subtitle", "call 7 transcript", 2.0, 4.0, text=LINES[0].text),
        piece("frames", "call 8 look", 7.0, 7.0, time=7.0, box=[0.0, 0.0, 0.5, 1.0]),
    ]
    json.dumps([toolbox.evidence, toolbox.calls])
    assert toolbox.calls[3]["frames"] == [{"time": 4.0, "box": right}]
    assert [frame["time"] for frame in toolbox.calls[4]["frames"]] == [1.0, 3.0]
    for _ in range(2):
        toolbox.call("read_text", times=[41.75])
    assert [call["cached"] for call in toolbox.calls[-2:]] == [False, True]


def test_threads_call_at_the_same_time() -> None:
    toolbox = complete()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda time: toolbox.call("look", times=[time]), range(40)))
    assert [result(reply)["frames"][0]["time"] for reply in replies] == [float(time) for time in range(40)]
    assert sorted(call["number"] for call in toolbox.calls) == list(range(1, 41))
    assert toolbox.used == {"calls": 40, "frames": 40, "seconds": toolbox.used["seconds"]}


def test_a_cancelled_call_is_not_made_and_progress_is_told() -> None:
    told: list[tuple[Any, ...]] = []
    toolbox = VideoTools(context(ocr=SignReader()), Budget(), tell=lambda *report: told.append(report))
    toolbox.call("read_text", times=[1, 2])
    assert told == [("reading", 0, 2), ("reading", 1, 2)]
    cancellation = Cancellation()
    cancellation.cancel()
    with cancellable(cancellation), pytest.raises(Cancelled):
        toolbox.call("look", times=[1])
    assert len(toolbox.calls) == 1


# ---- opening ----------------------------------------------------------------------------------------------


@pytest.fixture
def video_file(tmp_path: Path) -> Path:
    file = tmp_path / "video.mp4"
    shutil.copy(video().path, file)
    (tmp_path / "video.en.srt").write_text("1\n00:00:02,000 --> 00:00:04,000\nA bell rings.\n")
    return file


def test_without_a_model_an_agent_reads_and_looks_itself(video_file: Path) -> None:
    toolbox = open_video(video_file, models={"ocr": "none"})
    assert toolbox.names == ["look", "subtitles", "transcript"]
    assert toolbox.video == {"duration": 60.0, "width": 128, "height": 64, "has_subtitles": True}
    (line,) = result(toolbox.call("subtitles", query="bell"))["lines"]
    assert (line["start"], line["text"]) == (2.0, "A bell rings.")
    assert "ask() cannot be used: no model is set up" in error(toolbox.call("ask", question="?"))
    assert open_video(video_file, subtitles=False, models={"ocr": "none"}).names == ["look"]
    assert videopro.open_video is open_video


@pytest.mark.parametrize(
    ("models", "named"),
    [
        ("pocket", "knows the generated pocket videos only"),
        ({"encodr": "none"}, "'encodr'"),
        ({"backbone": {"frames": 8}}, "'backbone'"),
        ({"detector": "backbone"}, "detector 'backbone'"),
    ],
)
def test_models_that_do_not_fit_are_refused(video_file: Path, models: Any, named: str) -> None:
    with pytest.raises(VideoProError, match=named):
        open_video(video_file, models=models)
