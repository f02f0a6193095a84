"""The prompts of every path against those of the processors with which Qwen3-VL and Qwen3.5 were published
(`published.py`)."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from transformers import AutoProcessor
from trl import ModelConfig

from tests.backbones.qwen.published import CASES, FILE, QUESTION, TIMES, tokenizer, video
from tests.support import stub_engine
from tests.support.qwen_models import PIXELS, save_checkpoint, template
from tests.support.sft_world import ON_A_CPU
from videopro.backbones import BackboneConfig, Stills
from videopro.backbones.qwen import QwenBackbone
from videopro.question import Question
from videopro.runs.serving import Served
from videopro.train.finetune import SFTRow, VideoCollator, VideoSFTConfig, as_dataset
from videopro.train.rl import GRPORow, PromptEncoder
from videopro.train.rl.engine import _served
from videopro.train.runtime import FrameCache, TrainingSetup
from videopro.video import Frame

PUBLISHED = json.loads(FILE.read_text(encoding="utf-8"))
FRAMES = {
    name: [Frame(*pair) for pair in zip(video(name), times, strict=True)] for name, times in TIMES.items()
}
AROUND: dict[str, dict[str, Any]] = {"video": {}, "texts around": {"system": "Be brief.", "before": "Look:"}}
START, END = tokenizer().convert_tokens_to_ids(["<|vision_start|>", "<|vision_end|>"])


@pytest.fixture(scope="module", params=PUBLISHED)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def prompts(family: str) -> dict[str, Any]:
    """Of each case: the text of the published template, the ids and positions made of it."""
    return dict(PUBLISHED[family]["prompts"])


@pytest.fixture(scope="module")
def folder(family: str, prompts: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint with the recorded tokenizer, and a template that renders what the published one
    does."""
    made = save_checkpoint(family, tmp_path_factory.mktemp(family), tokenizer())
    (made / "chat_template.jinja").write_text(template(thinks=family == "qwen3_5"))
    render = AutoProcessor.from_pretrained(made).apply_chat_template
    for case, (messages, _) in CASES.items():
        text = render(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
        assert text == prompts[case]["text"]
    return made


def load(folder: Path, **settings: Any) -> QwenBackbone:
    return QwenBackbone(BackboneConfig(str(folder), frames=4, pixels=PIXELS, **settings))


def nested(prompt: Any) -> list[int]:
    """The ids of a prompt about one video, by hand, with a pair of marks around the whole video."""
    ids = prompt["ids"]
    before = prompt["text"].partition("<|vision_start|>")[0]
    first, last = len(tokenizer()(before)["input_ids"]), len(ids) - ids[::-1].index(END)
    return [*ids[:first], START, *ids[first:last], END, *ids[last:]]


@pytest.mark.parametrize("case", CASES)
def test_a_local_models_prompts_and_positions(folder: Path, prompts: Any, case: str) -> None:
    own, shown = load(folder), FRAMES["a"]
    inputs, run = own._inputs, own._runner
    if case == "two videos":
        videos = [inputs.as_video(FRAMES[name]) for name in "ab"]
        prompt = inputs.encode(inputs.render(CASES[case][0]), videos=videos)
    else:
        frames = {"image": shown[:1], "images": Stills([shown[0], shown[-1]])}.get(case, shown)
        prompt = inputs.head(frames, **AROUND.get(case, {})).append_text(inputs.tail(QUESTION))
    assert list(prompt.ids) == prompts[case]["ids"]
    positions, after = run.positions(prompt)
    assert positions[:, 0].tolist() == prompts[case]["positions"]
    assert after == prompts[case]["positions"][0][-1] + 1
    assert run.last_logits([prompt]).isfinite().all()


def test_the_marks_around_the_whole_video_are_a_setting_of_the_key(folder: Path, prompts: Any) -> None:
    published, other = load(folder), load(folder, video_marks="nested")
    inputs = other._inputs
    assert list(inputs.head(FRAMES["a"]).append_text(inputs.tail(QUESTION)).ids) == nested(prompts["video"])
    names = ("video_marks", "video_prompt")
    found = [[own.identity()[name] for name in names] for own in (published, other)]
    assert [marks for marks, _ in found] == ["published", "nested"]
    assert found[1][1] == f"<|vision_start|>{found[0][1]}<|vision_end|>"


@pytest.mark.parametrize("marks", [None, "nested"])
def test_trainings_and_their_engines_have_the_same_prompts(
    folder: Path, prompts: Any, marks: str | None, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {"frames": 4, "pixels": PIXELS, "video_marks": marks}
    training: Any = VideoSFTConfig(output_dir=str(tmp_path), train_data="rows", **seen, **ON_A_CPU)
    model = ModelConfig(model_name_or_path=str(folder), use_peft=True)
    start = TrainingSetup.of(training, model)
    assert start.record(is_adapter=True, reference="none").video_marks == (marks or "published")
    own, cache = load(folder), cast("FrameCache", SimpleNamespace(frames=lambda path: FRAMES["a"]))
    collator = VideoCollator(start.inputs, cache)
    encoder = PromptEncoder(start.inputs, cache, own._runner, frozen=False, kept_bytes=0)
    judged: dict[str, Any] = {"question": Question("?", ("a", "b")), "answer": "A"}
    judged |= {"subtitles": None, "oracle_mode": None}
    for case, around in AROUND.items():
        ids = nested(prompts[case]) if marks else prompts[case]["ids"]
        row = SFTRow("1", QUESTION, "B", Path("a"), **around)
        batch = collator([as_dataset([row])[0]])
        assert batch["input_ids"][0, : len(ids)].tolist() == ids
        # Only the reply and its end have labels; 2 x 2 tokens for each two of four frames.
        assert batch["labels"][0].tolist() == [-100] * len(ids) + batch["input_ids"][0, len(ids) :].tolist()
        assert batch["mm_token_type_ids"][0].tolist().count(2) == 8
        asked = GRPORow(id="1", kind="plan", video=Path("a"), prompt=QUESTION, **judged, **around)
        assert list(encoder.encode([asked])[0].encoded.ids) == ids
    # An engine puts the frames into the text that its template renders, as the newest processor does.
    engine = {"program": str(stub_engine.install(tmp_path))}
    for served in (Served.of(str(folder), seen, engine).model, _served(training, model, start)):
        text = own._inputs.processor.apply_chat_template(
            CASES["video"][0],
            chat_template=served.chat_template,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        made = own._inputs.encode(text, videos=[own._inputs.as_video(FRAMES["a"])])
        assert list(made.ids) == (nested(prompts["video"]) if marks else prompts["video"]["ids"])
