"""What is known of a served model: budgets, the planner's record, the prompt that the engine made of it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.qwen_models import PIXELS, checkpoint
from tests.support.server_cases import COLOURS, Make, frames
from tests.support.stub_server import StubServer, letter
from videopro.backbones import PlannerRecord, folder_fingerprint
from videopro.backbones.server.endpoint import wanted_flag
from videopro.backbones.server.profile import find_served
from videopro.backbones.server.prompt_check import difference, own_prompts, video_frames
from videopro.errors import BackboneError
from videopro.pocket import model_dir

REFUSED = (
    "Per-request media_io_kwargs are disabled by default because they can change multimodal media loading "
    "resource usage. Start the server with --trust-request-mm-kwargs only when clients are trusted. "
    "(parameter=media_io_kwargs)"
)


def card(name: str, root: object = None, parent: str | None = None) -> dict[str, Any]:
    """An entry as vLLM 0.32 lists it."""
    return {"id": name, "owned_by": "vllm", "root": root, "parent": parent, "max_model_len": 8192}


def cards(*entries: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in entries}


def adapter(folder: Path, **budgets: int) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    (folder / "videopro.json").write_text(json.dumps({**budgets, "planner": {}}))
    return folder


def test_a_checkpoint_on_this_machine_says_its_budgets(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "videopro.json").write_text('{"frames": 8, "pixels": 9216}')
    found = find_served(cards(card("x", str(tmp_path))), "x")
    assert (found.folder, found.frames, found.pixels, found.planner) == (tmp_path, 8, 9216, None)
    # The shipped models are known by their names, wherever the server has them from. An agent's adapter is no
    # planner, and has another record.
    for name, parent, plans in (
        ("pocket", None, False),
        ("pocket-sft", "pocket", True),
        ("pocket-vca", "pocket", False),
    ):
        found = find_served(cards(card(name, f"/srv/{name}", parent)), name)
        assert (found.frames, found.pixels, found.planner is not None) == (16, 15_360, plans)


def test_an_adapter_says_with_what_it_was_trained(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "sft", frames=12, pixels=4096)
    served = cards(card("pocket", "/srv/pocket"), card("mine", str(folder), "pocket"))
    found = find_served(served, "mine")
    assert (found.folder, found.frames, found.pixels) == (model_dir(), 12, 4096)
    assert (found.planner.base, dict(found.planner.prompts)) == ("", {})
    (folder / "videopro.json").unlink()
    # Trained by others: nothing tells what its prompts were.
    assert find_served(served, "mine").planner is None
    (folder / "videopro.json").write_text('{"planner": {"base": "pocket", "prompts": {"plan": "Plan."}}}')
    found = find_served(served, "mine")
    assert (found.planner.base, dict(found.planner.prompts)) == ("", {"plan": "Plan."})


def test_budgets_that_nothing_tells_are_asked_for() -> None:
    hub = find_served(cards(card("q", "org/name")), "q")
    *budget, note = hub.budget(None, None, "X")
    assert budget == [64, 50_176]
    assert "64 frames of 50,176 pixels each" in note
    assert hub.budget(8, 1024, "X") == (8, 1024, "")
    for entries, name in (
        ([card("q", "/srv/merged")], "q"),
        ([card("base", "org/name"), card("q", "/srv/sft", "base")], "q"),
    ):
        served = find_served(cards(*entries), name)
        with pytest.raises(BackboneError, match=r"'q' from /srv/.*, which is not on this machine.*set X"):
            served.budget(8, None, "X")
        assert served.budget(8, 1024, "X") == (8, 1024, "")
    # A server that names an adapter's base, and not where it has the adapter from.
    rootless = find_served(cards({"id": "q", "parent": "base"}), "q")
    with pytest.raises(BackboneError, match=r"'q' from another machine.*set X"):
        rootless.budget(None, None, "X")


def test_an_adapters_own_record_comes_before_its_base(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A setting that differs from it counts, and is named, as is another base than that of its training."""
    folder = adapter(tmp_path / "sft")
    base = {"name": "pocket", "weights": folder_fingerprint(model_dir())}
    record = {"frames": 6, "pixels": 4096, "base": base, "planner": {}, "versions": {}}
    (folder / "videopro.json").write_text(json.dumps(record))
    models = [card("mine", str(folder), "pocket"), card("pocket", "/srv/pocket")]
    with StubServer(models=models) as stub:
        for asked in ({"model": "mine"}, {"model": "pocket", "adapter_model": "mine"}):
            backbone = make(stub, **asked, video="frames")
            identity = backbone.identity()
            assert (identity["frames"], identity["pixels"], backbone.notes) == (6, 4096, ())
            assert backbone.planner == PlannerRecord()
            other = make(stub, **asked, frames=8, pixels=4096, video="frames")
            assert other.identity()["frames"] == 8
            (note,) = other.notes
            assert "was trained with frames=6, but runs with frames=8" in note
            assert note in caplog.text
        base["weights"] = "0f"
        (folder / "videopro.json").write_text(json.dumps(record))
        changed = make(stub, model="mine", video="frames")
        changed.identity()
        assert "was trained on pocket (files 0f), but is applied to /srv/pocket (files" in changed.notes[0]
    # No request is needed where the settings give both.
    given = make("http://127.0.0.1:9/v1", frames=3, pixels=1024)
    assert (given.frames, given.pixels) == (3, 1024)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (REFUSED, "--trust-request-mm-kwargs"),
        ("Requested sample logprobs of 20, which is greater than max allowed: 5", "--max-logprobs 20"),
        ("At most 0 video(s) may be provided in one prompt. (parameter=video)", "--limit-mm-per-prompt"),
        ("At most 16 image(s) may be provided in one prompt. (parameter=image)", "--limit-mm-per-prompt"),
        ("This model's maximum context length is 8192 tokens. However, your prompt", "--max-model-len"),
        ("max_tokens=9000 cannot be greater than max_model_len=8192.", "--max-model-len"),
        ("The decoder prompt (length 9) is longer than the maximum model length of 8.", "--max-model-len"),
    ],
)
def test_each_refusal_names_its_flag(words: str, flag: str) -> None:
    """The words of vLLM 0.32, as a live engine said them."""
    assert flag in wanted_flag(words)
    assert not wanted_flag("The model `nope` does not exist.")


def returning(ids: list[int]) -> Any:
    """Replies as a vLLM whose model saw these ids."""

    def reply(body: dict[str, Any]) -> Any:
        made = letter("A", [("A", -0.5)])
        return {**made, "prompt_token_ids": ids} if body.get("return_token_ids") else made

    return reply


def test_the_engines_prompt_is_compared_with_ours_once(make: Make) -> None:
    own = own_prompts(model_dir(), 16, 15_360)[0]["published"]
    models = [card("pocket", str(model_dir()))]
    with StubServer(returning(own), models=models, takes_video="times") as stub:
        backbone = make(stub, model="pocket")
        backbone.identity()
        backbone.answer(frames([1.0, 2.0]), COLOURS)
        assert backbone.notes == ()
        assert [body.get("return_token_ids", False) for body in stub.chats] == [False, False, True, False]
    start = own.index(next(token for token in own if own.count(token) > 50))
    with StubServer(
        returning(own[: start + 1] + own[start + 3 :]), models=models, takes_video="times"
    ) as stub:
        backbone = make(stub, model="pocket", video="video")
        backbone.identity()
        assert "frame tokens instead of" in backbone.notes[0]
    # An older engine, or a processor that is not here: nothing to compare.
    with StubServer(models=models, takes_video="times") as stub:
        backbone = make(stub, model="pocket")
        backbone.identity()
        assert backbone.notes == ()


@pytest.mark.parametrize(
    ("setting", "engine", "noted"),
    [
        (None, "published", False),
        (None, "nested", True),
        ("nested", "nested", False),
        ("nested", "published", True),
    ],
)
def test_the_marks_around_a_video_are_told_apart_and_recorded(
    make: Make, setting: Any, engine: Any, noted: bool
) -> None:
    """Of Qwen3-VL, by an engine with an older or a newer transformers; asked once."""
    folder = checkpoint("qwen3_vl")
    own, _ = own_prompts(folder, 4, PIXELS)
    # As in vLLM issue 46817.
    assert len(own["nested"]) == len(own["published"]) + 2
    seen = own[engine]
    models = [card("q", str(folder))]
    with StubServer(returning(seen), models=models, takes_video="times") as stub:
        backbone = make(stub, model="q", frames=4, pixels=PIXELS, video_marks=setting)
        identity = backbone.identity()
        assert (identity["video"], identity["video_marks"]) == ("video", engine)
        assert [f"--backbone video_marks={engine}" in note for note in backbone.notes] == [True] * noted
        asked = len(stub.chats)
        again = make(stub, model="q", frames=4, pixels=PIXELS, video_marks=setting)
        assert again.identity(recorded=identity) == identity
        assert len(stub.chats) == asked


@pytest.mark.parametrize("kept", [["config.json"], ["config.json", "tokenizer.json"], None])
def test_where_the_files_are_not_all_here_or_broken_nothing_is_compared(
    make: Make, tmp_path: Path, kept: list[str] | None
) -> None:
    """As in a cache of the hub that another program filled."""
    for name in kept or [path.name for path in model_dir().iterdir()]:
        shutil.copy(model_dir() / name, tmp_path)
    if kept is None:
        (tmp_path / "tokenizer.json").write_text("{")
    with StubServer(returning([1, 2]), models=[card("q", str(tmp_path))], takes_video="times") as stub:
        backbone = make(stub, model="q", frames=4, pixels=1024)
        assert backbone.identity()["video"] == "video"
        backbone.answer(frames([1.0, 2.0]), COLOURS)
        (note,) = backbone.notes
        assert note.startswith("the engine's prompt was not compared with the local one: model")
        assert not [body for body in stub.chats if "return_token_ids" in body]


def test_the_difference_says_what_differs() -> None:
    prompts, decode = own_prompts(model_dir(), 4, 15_360)
    own = prompts["published"]
    assert difference(own, own, decode) == ""
    assert "another chat template" in difference(own[5:], own, decode)
    shorter = [token for token in own if decode([token]) != "<|video_pad|>"]
    assert "0 frame tokens instead of" in difference(shorter, own, decode)
    # The last token alone: what the engine's reply would begin with.
    assert f"from token {len(own)} on" in difference([*own, own[0]], own, decode)


def test_the_compared_frames_have_the_size_that_the_backbone_decodes() -> None:
    made = video_frames(3, lambda height, width, count: (height // 10, width // 10))
    assert [frame.image.shape for frame in made] == [(72, 128, 3)] * 3
    assert [frame.time for frame in made] == [3.6, 10.9, 18.2]
