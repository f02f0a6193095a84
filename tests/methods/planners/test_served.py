"""A planner behind a server: what it is sent, how it is asked, and its weights, which are part of a run."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import scenes as world
from tests.support import server_cases
from tests.support.scenes import NATIVE, OPTIONS, SceneBackbone, context, item
from tests.support.stub_server import (
    StubFault,
    StubServer,
    completion,
    entry,
    pictures_of,
    text_of,
    video_times,
)
from videopro.backbones import ServerSettings, load_backbone
from videopro.backbones.wrappers import share_backbone
from videopro.benchmarks import ROBUST, Protocol
from videopro.errors import BackboneError, ConfigError, RunError
from videopro.methods import Questions, RunRequest, create, prepare
from videopro.methods.planners import PlanRequest, load_planner, settle_served_planner
from videopro.question import Question
from videopro.runs import RunFolder
from videopro.video import uniform_times

ADAPTER = {"id": "mine", "owned_by": "stub", "parent": "served"}
BASE = {"id": "served", "owned_by": "stub", "root": "org/base"}
FORM: dict[str, Any] = {"planner_prompt": "short", "planner_frames": 2}
REQUEST = PlanRequest("plan", "execute_command", world.QUESTION)
GIVEN = ServerSettings(concurrency=3, timeout=20.0, retries=8, engine="vllm")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    server_cases.without_waiting(monkeypatch)


def writes(text: str = NATIVE) -> Any:
    """A reply of four tokens."""
    return lambda body: completion(text, [entry(word, -0.1) for word in ("a", "b", "c", "d")])


def asked(stub: StubServer) -> list[dict[str, Any]]:
    """The requests for programs: those that are not the probe's."""
    return [body for body in stub.chats if "execute_command" in text_of(body)]


def options(stub: StubServer, model: str = "served", **more: Any) -> dict[str, Any]:
    prompt = {"planner_prompt": "short"} if model == "served" else {}
    return {**OPTIONS, "planner": f"server:{model}@{stub.url}", **prompt, **more}


def planner_at(stub: StubServer, kind: str = "server", server: ServerSettings | None = None) -> Any:
    return load_planner(f"{kind}:served@{stub.url}", None, is_fine_tuned=True, server=server)


# ---- what is sent ----------------------------------------------------------------------------------------


def test_it_sees_the_video_with_its_times_and_the_backbone_answers() -> None:
    with StubServer(writes(), takes_video="times") as stub:
        backbone = SceneBackbone()
        method = create("adaptive", options(stub, planner_frames=6, temperature=0.5))
        result: Any = method.run(item(), context(backbone, seed=3))
        (body,) = asked(stub)
        times = [frame.time for frame in world.video().frames(uniform_times(0.0, 60.0, 6))]
        assert video_times(body, "times") == pytest.approx(times, abs=0.01)
        assert body["temperature"] == 0.5
        assert body["seed"] > 0
        assert "Available functions" not in text_of(body)
        # The planner wrote and the backbone answered, never the other way round.
        assert (len(backbone.asked), len(backbone.written)) == (1, 0)
        assert result.final.letter == "D"
        planning = result.rounds[0].planning
        assert (planning.calls, planning.tokens_out) == (1, 4)
        assert {"encode", "decode", "plan"} <= set(result.cost.stages)


def test_questions_about_a_video_share_its_pictures_and_each_has_its_seed() -> None:
    with StubServer(writes(), takes_video="times") as stub:
        items = [item(), item(id="q2", question=Question("Which?", ("red", "grey")))]
        method = create("adaptive", options(stub, temperature=0.7))
        done = list(method.run_video(items, context(SceneBackbone())))
        assert [result.error for _, result in done] == [None, None]
        first, second = asked(stub)
        assert first["seed"] != second["seed"]
        assert first["messages"][0]["content"][0] == second["messages"][0]["content"][0]
        # 64 frames where nothing is said of them, and no frame for an answer.
        assert len(pictures_of(first)) == 64


def test_one_refused_request_fails_one_question_and_a_dead_server_ends_the_run() -> None:
    with StubServer(writes()) as stub:
        planner = planner_at(stub)
        stub.faults = [StubFault(400, {"error": {"message": "too long"}})]
        with pytest.raises(BackboneError, match="too long"):
            planner.write([REQUEST])
        assert planner.write([REQUEST])[0].text == NATIVE
        stub.faults = [StubFault(401, {"error": {"message": "no"}})]
        with pytest.raises(RunError, match=r"planner server:served: .*\n.*the run stops"):
            planner.write([REQUEST])
        planner.close()


# ---- how it is asked -------------------------------------------------------------------------------------


def trained(folder: Path, prompts: dict[str, str] | None = None) -> dict[str, Any]:
    """The entry of an adapter that was trained here, whose folder is on this machine."""
    (folder / "adapter_config.json").write_text("{}")
    planner = {} if prompts is None else {"prompts": prompts}
    (folder / "videopro.json").write_text(json.dumps({"frames": 6, "pixels": 1024, "planner": planner}))
    return {**ADAPTER, "root": str(folder)}


def settled(
    stub: StubServer, recorded: dict[str, Any] | None = None, pixels: int | None = None, **given: Any
) -> dict[str, Any]:
    chosen = {"planner": f"server:mine@{stub.url}", **given}
    return settle_served_planner(chosen, recorded or {}, ServerSettings(retries=0), pixels)


def form(*args: Any, **given: Any) -> dict[str, Any]:
    """What is settled of the form of its requests."""
    made = settled(*args, **given)
    return {name: value for name, value in made.items() if name not in ("planner", "planner_weights")}


def test_an_address_is_no_part_of_the_key() -> None:
    spec = "server:m@http://localhost:8000/v1"
    given = {"planner": spec, "planner_prompt": "short"}
    facts = create("videopro", given).identity()
    assert facts["planner"] == "server:m"
    assert facts == create("videopro", {**given, "planner": spec.replace("8000", "8001")}).identity()
    assert create("videopro", {**given, "planner_pixels": 9}).identity() == {**facts, "planner_pixels": 9}


def test_a_planners_own_record_says_how_it_is_asked(tmp_path: Path) -> None:
    with StubServer(writes(), models=[BASE, trained(tmp_path)], takes_video="times") as stub:
        own = {"planner_prompt": "short", "planner_frames": 6, "planner_pixels": 1024}
        assert form(stub) == own
        # Settings come first.
        assert form(stub, planner_prompt="full") == {**own, "planner_prompt": "full"}
        assert form(stub, planner_frames=0) == {"planner_prompt": "short", "planner_frames": 0}
        # The pixels of --backbone are for planners that record none.
        sizes = {"planner_frames": 6, "planner_pixels": 1024}
        texts = {"plan": "{question} {choices}"}
        assert form(stub, pixels=9, prompts=texts) == {**sizes, "prompts": texts}
        # Used without a run, the planner asks the server itself.
        create("adaptive", options(stub, "mine")).run(item(), context(SceneBackbone()))
        body = asked(stub)[-1]
        assert (len(pictures_of(body)), body["model"]) == (6, "mine")
        assert "Available functions" not in text_of(body)


def test_a_run_that_goes_on_keeps_what_it_recorded(tmp_path: Path) -> None:
    kept = {"planner_prompt": "full", "planner_frames": 3}
    recorded = {"planner": "server:mine", **kept, "planner_weights": {}}
    with StubServer(models=[BASE, trained(tmp_path)]) as stub:
        assert form(stub, recorded) == kept
        assert form(stub, recorded, prompts="x.yaml") == {"planner_frames": 3, "prompts": "x.yaml"}
        assert stub.seen == []
        assert form(stub, {**recorded, "planner": "server:other"})["planner_frames"] == 6


def test_a_planner_of_which_nothing_is_known_is_asked_about() -> None:
    with StubServer(writes(), models=[BASE, {**ADAPTER, "root": "/srv/sft"}], takes_video="times") as stub:
        with pytest.raises(ConfigError, match=r"planner_prompt=short"):
            settled(stub)
        with pytest.raises(BackboneError, match=r"/srv/sft.*--planner-frames"):
            settled(stub, planner_prompt="short")
        assert form(stub, pixels=1024, **FORM) == {**FORM, "planner_pixels": 1024}
        # In a run, what no request can mend ends it.
        with pytest.raises(RunError, match=r"planner server:mine: .*--backbone pixels=N .*\n.*the run stops"):
            load_planner(f"server:mine@{stub.url}", SceneBackbone(), is_fine_tuned=True)


def test_what_a_run_records_of_a_planner_is_no_option(tmp_path: Path) -> None:
    def prepared(recorded: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
        questions = Questions(Protocol(parser=ROBUST))
        chosen = options(stub, "mine", **more)
        loading: Any = lambda *args, **settings: SceneBackbone()  # noqa: E731
        return prepare(
            RunRequest("videopro", chosen, "m", {}, lambda: questions, recorded, load=loading)
        ).identity

    with StubServer(writes(), models=[BASE, trained(tmp_path)], takes_video="times") as stub:
        first = prepared({})
        assert (first["planner_pixels"], first["planner_weights"]["root"]) == (1024, str(tmp_path))
        for option in ({"planner_pixels": 9}, {"planner_weights": {"root": "/elsewhere"}}):
            for recorded in (first, {}):
                with pytest.raises(ConfigError, match=r"planner_\w+ is not a setting: .*; leave it out$"):
                    prepared(recorded, **option)


# ---- its weights are part of a run, which another one under its name does not resume ----------------------


def adapter(folder: Path, weights: bytes = b"1") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return folder


def serving(root: Path | str | None) -> StubServer:
    return StubServer(writes(), models=[BASE, {**ADAPTER, "root": None if root is None else str(root)}])


def identity(stub: StubServer, recorded: dict[str, Any] | None = None) -> dict[str, Any]:
    return create("videopro", settled(stub, recorded, 1024, **FORM)).identity()


def test_a_run_records_where_the_weights_are_from_and_what_they_are_if_they_are_here(tmp_path: Path) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        found = settled(stub, pixels=1024, **FORM)["planner_weights"]
        assert found["root"] == str(tmp_path / "a")
        assert len(found["files"]) == 16
        assert set(found["files"]) <= set("0123456789abcdef")
        assert identity(stub)["planner_weights"] == found
    with serving("/srv/elsewhere") as stub:
        assert identity(stub)["planner_weights"] == {"root": "/srv/elsewhere"}
    with serving(None) as stub:
        assert identity(stub)["planner_weights"] == {}


def test_other_weights_under_the_same_name_are_another_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        first = identity(stub)
        # A run that goes on, unless the files have changed, as by another training into the same folder.
        assert identity(stub, first) == first
        folder = RunFolder(tmp_path / "run")
        folder.open({}, {"method": first})
        adapter(tmp_path / "a", b"2")
        with pytest.raises(RunError, match=r"method\.planner_weights\.files: the run has '\w{16}'"):
            folder.check_same({"method": identity(stub, first)})
        adapter(tmp_path / "a", b"1")
        folder.check_same({"method": identity(stub, first)})
    with serving(adapter(tmp_path / "b")) as stub:
        with pytest.raises(RunError, match=r"method\.planner_weights\.root: the run has '.*/a', this .*/b'"):
            folder.check_same({"method": identity(stub, first)})
        # A worker on another machine, whose server has another adapter.
        weights = first["planner_weights"]
        with pytest.raises(RunError, match=r"loads it from .*/b, but the run from .*/a; serve that one"):
            load_planner(f"server:mine@{stub.url}", None, is_fine_tuned=True, weights=weights)
        # A server that is away leaves the comparison to the workers.
        stub.is_down = True
        with caplog.at_level(logging.WARNING):
            assert identity(stub, first) == first
        assert "by name only: server" in caplog.messages[-1]


def test_files_are_compared_only_where_they_are_at_both_times(tmp_path: Path) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        first = identity(stub)
        (tmp_path / "a").rename(tmp_path / "gone")
        assert identity(stub, first) == first
        # Begun where they were not, and gone on where they are.
        begun = identity(stub)
        assert begun["planner_weights"] == {"root": str(tmp_path / "a")}
        (tmp_path / "gone").rename(tmp_path / "a")
        assert identity(stub, begun) == begun


# ---- `--backbone concurrency=, timeout=, retries=, engine=` hold for every server of a run ----------------


def away(times: int) -> list[Any]:
    return [StubFault(503, {"error": {"message": "starting"}})] * times


def test_a_planner_tries_as_often_as_the_settings_say() -> None:
    with StubServer(writes()) as stub:
        stub.faults = away(8)
        assert planner_at(stub, "server", GIVEN).write([REQUEST])[0].text == NATIVE
        stub.faults = away(8)
        with pytest.raises(RunError, match="status 503"):
            planner_at(stub).write([REQUEST])
        stub.faults = [StubFault(delay=1.0)]
        with pytest.raises(RunError, match=r"did not reply within 0\.1 s"):
            planner_at(stub, "api", ServerSettings(timeout=0.1, retries=0)).write([REQUEST])


def test_the_settings_of_the_runs_backbone_reach_its_planner() -> None:
    with StubServer(lambda body: StubFault(body=writes()(body), delay=0.05)) as stub:
        backbone = SceneBackbone()
        backbone.server_settings = ServerSettings(concurrency=1, retries=0)
        method = create("adaptive", options(stub, planner_frames=0))
        items = [item(id=f"q{n}", question=Question("Which?", ("red", f"grey {n}"))) for n in range(4)]
        assert len(list(method.run_video(items, context(backbone)))) == 4
        assert stub.peak == 1
        assert not any(pictures_of(body) for body in asked(stub))
        stub.faults = away(1)
        with pytest.raises(RunError, match="status 503"):
            list(method.run_video(items[:1], context(backbone)))


def test_further_fields_go_to_an_api_model_and_into_its_key() -> None:
    effort = {"reasoning_effort": "low"}
    with StubServer(writes()) as stub:
        for kind, sent in (("api", effort), ("server", {})):
            planner = planner_at(stub, kind, ServerSettings(retries=0, api_body=effort))
            planner.write([REQUEST])
            assert {name: stub.chats[-1][name] for name in effort if name in stub.chats[-1]} == sent
            assert planner.identity()["extra_body"] == sent
        assert "extra_body" not in planner_at(stub, "api").identity()


def test_a_backbone_keeps_the_settings_that_it_was_given() -> None:
    given = GIVEN.as_settings()
    assert given == {"concurrency": 3, "timeout": 20.0, "retries": 8, "engine": "vllm", "api_body": {}}
    assert ServerSettings.given_in({**given, "frames": 4}) == GIVEN
    usual = ServerSettings(concurrency=64, timeout=300.0, retries=4, engine="auto")
    assert ServerSettings.given_in({}) == usual
    with StubServer() as stub:
        served = load_backbone(f"server:served@{stub.url}", **given)
        assert share_backbone(served, adapter=False).server_settings == GIVEN
    # A local model has them for the servers beside it.
    local = load_backbone("pocket", **given)
    assert share_backbone(local).server_settings == GIVEN
