"""A planner behind a server: it sees the video, and another model answers inside its programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import reason_world as world
from tests.support.method_world import OPTIONS, context, item
from tests.support.reason_world import LOCAL, NATIVE, SceneBackbone
from tests.support.stub_server import (
    StubFault,
    StubServer,
    completion,
    entry,
    pictures_of,
    text_of,
    video_times,
)
from videopro.backbones import ServerSettings
from videopro.benchmarks import ROBUST, Protocol
from videopro.errors import BackboneError, ConfigError, RunError
from videopro.methods import Questions, RunRequest, create, prepare
from videopro.methods.planners import PlanRequest, load_planner, settle_served_planner
from videopro.modules import library as module_library
from videopro.modules.calls import CallCache
from videopro.question import Question
from videopro.video import uniform_times


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_library, "_cache", CallCache())


def writes(text: str) -> Any:
    """A reply of four tokens."""
    return lambda body: completion(text, [entry(word, -0.1) for word in ("a", "b", "c", "d")])


def asked(stub: StubServer) -> list[dict[str, Any]]:
    """The requests for programs: those that are not the probe's."""
    return [body for body in stub.chats if "execute_command" in text_of(body)]


def options(stub: StubServer, **more: Any) -> dict[str, Any]:
    return {**OPTIONS, "planner": f"server:served@{stub.url}", "planner_prompt": "short", **more}


def test_it_sees_the_video_with_its_times_and_the_backbone_answers() -> None:
    with StubServer(writes(NATIVE), takes_video="times") as stub:
        backbone = SceneBackbone()
        method = create("adaptive", options(stub, planner_frames=6, temperature=0.5))
        result = method.run(item(), context(backbone, seed=3))
        (body,) = asked(stub)
        assert video_times(body, "times") == pytest.approx(
            [frame.time for frame in world.video().frames(uniform_times(0.0, 60.0, 6))], abs=0.01
        )
        assert body["temperature"] == 0.5
        assert body["seed"] > 0
        assert "Available functions" not in text_of(body)
        # The planner wrote and the backbone answered, never the other way round.
        assert (len(backbone.asked), len(backbone.written)) == (1, 0)
        assert result.final is not None
        assert result.final.letter == "D"
        planning = result.rounds[0].planning
        assert (planning.calls, planning.tokens_out) == (1, 4)
        assert {"encode", "decode", "plan"} <= set(result.cost.stages)


def test_frames_go_as_pictures_where_a_server_takes_no_video() -> None:
    with StubServer(writes(LOCAL), takes_video="refused") as stub:
        more = {"planner_frames": 4, "planner_pixels": 1024, "planner_prompt": "full"}
        create("program", options(stub, **more)).run(item(), context(SceneBackbone()))
        (body,) = asked(stub)
        pictures = pictures_of(body)
        assert len(pictures) == 4
        assert all(picture.width * picture.height <= 1024 for picture in pictures)
        assert "<7.5 seconds>" in text_of(body)
        assert "Available functions" in text_of(body)


def test_a_planner_that_is_shown_nothing() -> None:
    with StubServer(writes(NATIVE)) as stub:
        create("adaptive", options(stub, planner_frames=0)).run(item(), context(SceneBackbone()))
        assert [pictures_of(body) for body in asked(stub)] == [[]]


def test_questions_about_a_video_share_its_pictures_and_each_has_its_seed() -> None:
    with StubServer(writes(NATIVE), takes_video="times") as stub:
        items = [item(), item(id="q2", question=Question("Which?", ("red", "grey")))]
        backbone = SceneBackbone()
        done = list(create("adaptive", options(stub, temperature=0.7)).run_video(items, context(backbone)))
        assert [result.error for _, result in done] == [None, None]
        first, second = asked(stub)
        assert first["seed"] != second["seed"]
        assert first["messages"][0]["content"][0] == second["messages"][0]["content"][0]
        # 64 frames where nothing is said of them, and no frame for an answer.
        assert len(pictures_of(first)) == 64


def test_one_refused_request_fails_one_question_and_a_dead_server_ends_the_run() -> None:
    with StubServer(writes(NATIVE)) as stub:
        planner = load_planner(f"server:served@{stub.url}", SceneBackbone(), is_fine_tuned=True)
        request = PlanRequest("plan", "execute_command", world.QUESTION)
        stub.faults = [StubFault(400, {"error": {"message": "too long"}})]
        with pytest.raises(BackboneError, match="too long"):
            planner.write([request])
        assert planner.write([request])[0].text == NATIVE
        stub.faults = [StubFault(401, {"error": {"message": "no"}})]
        with pytest.raises(RunError, match=r"planner server:served: .*\n.*the run stops"):
            planner.write([request])
        planner.close()


def test_settings_of_a_served_planner() -> None:
    spec = "server:m@http://localhost:8000/v1"
    with pytest.raises(ConfigError, match="write server:MODEL@URL"):
        create("videopro", {"planner": "server:m", "planner_prompt": "short"})
    given = {"planner": spec, "planner_prompt": "short"}
    facts = create("videopro", given).identity()
    assert facts["planner"] == "server:m"
    assert facts == create("videopro", {**given, "planner": spec.replace("8000", "8001")}).identity()
    assert create("videopro", {**given, "planner_pixels": 9}).identity() == {**facts, "planner_pixels": 9}


ADAPTER = {"id": "mine", "owned_by": "stub", "parent": "served"}
BASE = {"id": "served", "owned_by": "stub", "root": "org/base"}


def trained(folder: Path, prompts: dict[str, str] | None = None) -> dict[str, Any]:
    """The entry of an adapter that was trained here, whose folder is on this machine."""
    (folder / "adapter_config.json").write_text("{}")
    planner = {} if prompts is None else {"prompts": prompts}
    (folder / "videopro.json").write_text(json.dumps({"frames": 6, "pixels": 1024, "planner": planner}))
    return {**ADAPTER, "root": str(folder)}


def settled(
    stub: StubServer, recorded: dict[str, Any] | None = None, pixels: int | None = None, **given: Any
) -> dict[str, Any]:
    asked = {"planner": f"server:mine@{stub.url}", **given}
    made = settle_served_planner(asked, recorded or {}, ServerSettings(), pixels)
    del made["planner"]
    made.pop("planner_weights", None)
    return made


def test_a_planners_own_record_says_how_it_is_asked(tmp_path: Path) -> None:
    with StubServer(writes(NATIVE), models=[BASE, trained(tmp_path)], takes_video="times") as stub:
        own = {"planner_prompt": "short", "planner_frames": 6, "planner_pixels": 1024}
        assert settled(stub) == own
        # Settings come first.
        assert settled(stub, planner_prompt="full") == {**own, "planner_prompt": "full"}
        assert settled(stub, planner_frames=0) == {"planner_prompt": "short", "planner_frames": 0}
        # The pixels of --backbone are for planners that record none.
        texts = {"plan": "{question} {choices}"}
        assert settled(stub, pixels=9, prompts=texts) == {
            "planner_frames": 6,
            "planner_pixels": 1024,
            "prompts": texts,
        }
        # Used without a run, the planner asks the server itself.
        create("adaptive", {**OPTIONS, "planner": f"server:mine@{stub.url}"}).run(
            item(), context(SceneBackbone())
        )
        body = asked(stub)[-1]
        assert len(pictures_of(body)) == 6
        assert "Available functions" not in text_of(body)
        assert body["model"] == "mine"


def test_a_run_that_goes_on_keeps_what_it_recorded(tmp_path: Path) -> None:
    recorded = {"planner": "server:mine", "planner_prompt": "full", "planner_frames": 3}
    recorded["planner_weights"] = {}
    with StubServer(models=[BASE, trained(tmp_path)]) as stub:
        assert settled(stub, recorded) == {"planner_prompt": "full", "planner_frames": 3}
        assert settled(stub, recorded, prompts="x.yaml") == {"planner_frames": 3, "prompts": "x.yaml"}
        assert stub.seen == []
        assert settled(stub, {**recorded, "planner": "server:other"})["planner_frames"] == 6


def test_a_planner_that_was_trained_on_prompts_of_its_user(tmp_path: Path) -> None:
    texts = {"plan": "Answer {question} of {choices} with execute_command."}
    with StubServer(writes(NATIVE), models=[BASE, trained(tmp_path, texts)], takes_video="times") as stub:
        assert settled(stub) == {"prompts": texts, "planner_frames": 6, "planner_pixels": 1024}
        create("adaptive", {**OPTIONS, "planner": f"server:mine@{stub.url}"}).run(
            item(), context(SceneBackbone())
        )
        assert text_of(asked(stub)[-1]).startswith("Answer What is shown")


def test_a_planner_of_which_nothing_is_known_is_asked_about() -> None:
    elsewhere = {**ADAPTER, "root": "/srv/sft"}
    with StubServer(writes(NATIVE), models=[BASE, elsewhere], takes_video="times") as stub:
        with pytest.raises(
            ConfigError, match=r"what this model was trained on.* planner_prompt=short if on our"
        ):
            settled(stub)
        with pytest.raises(BackboneError, match=r"/srv/sft.*give --planner-frames N --backbone pixels=N"):
            settled(stub, planner_prompt="short")
        given = {"planner_prompt": "short", "planner_frames": 2}
        assert settled(stub, pixels=1024, **given) == {**given, "planner_pixels": 1024}
        # In a run, what no request can mend ends it.
        with pytest.raises(RunError, match=r"planner server:mine: .*--backbone pixels=N .*\n.*the run stops"):
            load_planner(f"server:mine@{stub.url}", SceneBackbone(), is_fine_tuned=True)


def test_what_a_run_records_of_a_planner_is_no_option(tmp_path: Path) -> None:
    with StubServer(writes(NATIVE), models=[BASE, trained(tmp_path)], takes_video="times") as stub:

        def prepared(recorded: dict[str, Any] | None = None, **options: Any) -> Mapping[str, Any]:
            return prepare(
                RunRequest(
                    "videopro",
                    {**OPTIONS, "planner": f"server:mine@{stub.url}", **options},
                    "m",
                    {},
                    lambda: Questions(Protocol(parser=ROBUST)),
                    recorded or {},
                    load=lambda *args, **settings: SceneBackbone(),
                )
            ).identity

        first = dict(prepared())
        assert (first["planner_pixels"], first["planner_weights"]["root"]) == (1024, str(tmp_path))
        for option in ({"planner_pixels": 9}, {"planner_weights": {"root": "/elsewhere"}}):
            for recorded in (first, None):
                with pytest.raises(ConfigError, match=r"planner_\w+ is no setting: .*; leave it out$"):
                    prepared(recorded, **option)
