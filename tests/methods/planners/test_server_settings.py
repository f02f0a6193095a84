"""`--backbone concurrency=, timeout=, retries=, engine=` hold for every server of a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import reason_world as world
from tests.support import server_cases
from tests.support.adapting import adapted
from tests.support.method_world import OPTIONS, context, item
from tests.support.reason_world import NATIVE, SceneBackbone
from tests.support.server_cases import RAY_CARD
from tests.support.stub_server import StubFault, StubServer, completion, entry
from videopro.backbones import Backbone, BackboneConfig, ServerSettings, load_backbone
from videopro.backbones.server import ServerBackbone
from videopro.backbones.wrappers import share_backbone
from videopro.errors import BackboneError, RunError
from videopro.methods import create
from videopro.methods.agents import ModelLoader
from videopro.methods.planners import PlanRequest, load_answerer, load_planner
from videopro.question import Question

REQUEST = PlanRequest("plan", "execute_command", world.QUESTION)
GIVEN = ServerSettings(concurrency=3, timeout=20.0, retries=8, engine="vllm")


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    server_cases.without_waiting(monkeypatch)


def writes(body: dict[str, Any]) -> Any:
    return completion(NATIVE, [entry("a", -0.1)])


def away(times: int) -> list[Any]:
    return [StubFault(503, {"error": {"message": "starting"}})] * times


def settings_of(model: Backbone) -> ServerSettings:
    assert isinstance(model, ServerBackbone)
    return model.config.server_settings


@pytest.mark.parametrize("kind", ["server", "api"])
def test_a_planner_tries_as_often_as_the_settings_say(kind: str) -> None:
    with StubServer(writes) as stub:

        def planner(server: ServerSettings | None) -> Any:
            return load_planner(f"{kind}:served@{stub.url}", None, is_fine_tuned=True, server=server)

        stub.faults = away(8)
        assert planner(GIVEN).write([REQUEST])[0].text == NATIVE
        stub.faults = away(8)
        with pytest.raises(RunError, match="status 503"):
            planner(None).write([REQUEST])
        stub.faults = [StubFault(delay=3.0)]
        with pytest.raises(RunError, match=r"no reply within 0\.2 s"):
            planner(ServerSettings(timeout=0.2, retries=0)).write([REQUEST])


def test_the_settings_of_the_runs_backbone_reach_its_planner() -> None:
    with StubServer(lambda body: StubFault(body=writes(body), delay=0.05)) as stub:
        backbone = SceneBackbone()
        backbone.server_settings = ServerSettings(concurrency=1, retries=0)
        given = {**OPTIONS, "planner": f"server:served@{stub.url}", "planner_prompt": "short"}
        method = create("adaptive", {**given, "planner_frames": 0})
        items = [item(id=f"q{n}", question=Question("Which?", ("red", f"grey {n}"))) for n in range(4)]
        assert len(list(method.run_video(items, context(backbone)))) == 4
        assert stub.peak == 1
        stub.faults = away(1)
        with pytest.raises(RunError, match="status 503"):
            list(method.run_video(items[:1], context(backbone)))


def test_they_hold_when_a_planner_is_asked_before_the_run() -> None:
    with StubServer(writes) as stub:
        options = {"planner": f"server:served@{stub.url}", "planner_prompt": "short"}
        # Two requests find out how a video is sent; one of them meets at least five of these.
        stub.faults = away(11)
        adapted("videopro", options, backbone={"retries": 20})
        stub.faults = away(11)
        with pytest.raises(BackboneError, match="status 503"):
            adapted("videopro", options)


def test_an_engine_that_is_named_once_is_known_of_both() -> None:
    with StubServer(writes, models=[RAY_CARD]) as stub:
        planner = load_planner(f"server:served@{stub.url}", None, is_fine_tuned=True, server=GIVEN)
        planner.write([REQUEST])
        (body,) = stub.chats
        assert body["top_k"] == -1


def test_a_backbone_keeps_the_settings_that_it_was_given() -> None:
    given = GIVEN.as_settings()
    assert given == {"concurrency": 3, "timeout": 20.0, "retries": 8, "engine": "vllm"}
    assert ServerSettings.given_in({**given, "frames": 4}) == GIVEN
    assert ServerSettings.given_in({}) == ServerSettings(
        concurrency=64, timeout=300.0, retries=4, engine="auto"
    )
    with StubServer() as stub:
        served = load_backbone(f"server:served@{stub.url}", **given)
        assert share_backbone(served, adapter=False).server_settings == GIVEN
    # A local model has them for the servers beside it.
    local = load_backbone("pocket", **given)
    assert share_backbone(local).server_settings == GIVEN
    named = load_answerer("server:a@http://localhost:1/v1", local)
    assert settings_of(named) == GIVEN


def test_agents_models_have_them_and_a_hosted_endpoint_keeps_its_smaller_number() -> None:
    backbone = SceneBackbone()
    backbone.server_settings = ServerSettings(concurrency=40, timeout=20.0, retries=8)
    configs: list[BackboneConfig] = []

    def load(config: BackboneConfig) -> SceneBackbone:
        configs.append(config)
        return SceneBackbone()

    loader = ModelLoader(backbone, load=load)
    loader["server:m@http://localhost:1/v1"]
    loader["org/model"]
    api: Any = loader["api:o3@http://localhost:1/v1"]
    assert configs[0].server_settings == backbone.server_settings
    assert configs[1].server_settings == ServerSettings()
    assert api._client._config.server_settings == ServerSettings(concurrency=8, timeout=20.0, retries=8)
