"""The weights of a served planner are part of a run, which another one under its name does not resume."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.reason_world import NATIVE
from tests.support.stub_server import StubServer, completion, entry
from videopro.backbones import ServerSettings, load_backbone
from videopro.errors import RunError
from videopro.methods import create
from videopro.methods.planners import load_planner, settle_served_planner
from videopro.runs import RunFolder

BASE = {"id": "served", "owned_by": "stub", "root": "org/base"}
HEX = "0123456789abcdef"


def adapter(folder: Path, weights: bytes = b"1") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return folder


def serving(root: Path | str | None) -> StubServer:
    own = {"id": "mine", "owned_by": "stub", "parent": "served", "root": None if root is None else str(root)}
    return StubServer(lambda body: completion(NATIVE, [entry("a", -0.1)]), models=[BASE, own])


def settled(stub: StubServer, recorded: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    form = {"planner_prompt": "short", "planner_frames": 2, **given}
    options = {"planner": f"server:mine@{stub.url}", **form}
    return settle_served_planner(options, recorded or {}, ServerSettings(retries=0), 1024)


def identity(options: dict[str, Any]) -> dict[str, Any]:
    return create("videopro", options).identity()


def test_a_run_records_where_the_weights_are_from_and_what_they_are_if_they_are_here(tmp_path: Path) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        found = settled(stub)["planner_weights"]
        assert found["root"] == str(tmp_path / "a")
        assert len(found["files"]) == 16
        assert set(found["files"]) <= set(HEX)
        assert identity(settled(stub))["planner_weights"] == found
    with serving("/srv/elsewhere") as stub:
        assert settled(stub)["planner_weights"] == {"root": "/srv/elsewhere"}
    with serving(None) as stub:
        assert identity(settled(stub))["planner_weights"] == {}


def test_other_weights_under_the_same_name_are_another_run(tmp_path: Path) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        first = identity(settled(stub))
        # A run that goes on, unless the files have changed, as by another training into the same folder.
        assert identity(settled(stub, first)) == first
        folder = RunFolder(tmp_path / "run")
        folder.open({}, {"method": first})
        adapter(tmp_path / "a", b"2")
        with pytest.raises(RunError, match=r"method\.planner_weights\.files: the run has '\w{16}', this com"):
            folder.check_same({"method": identity(settled(stub, first))})
        adapter(tmp_path / "a", b"1")
        folder.check_same({"method": identity(settled(stub, first))})
    with serving(adapter(tmp_path / "b")) as stub:
        with pytest.raises(RunError, match=r"method\.planner_weights\.root: the run has '.*/a', this .*/b'"):
            folder.check_same({"method": identity(settled(stub, first))})
        # A worker on another machine, whose server has another adapter.
        with pytest.raises(RunError, match=r"has it from .*/b, and the run from .*/a; serve that one"):
            load_planner(
                f"server:mine@{stub.url}", None, is_fine_tuned=True, weights=first["planner_weights"]
            )


def test_files_are_compared_only_where_they_are_at_both_times(tmp_path: Path) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        first = identity(settled(stub))
        (tmp_path / "a").rename(tmp_path / "gone")
        assert identity(settled(stub, first)) == first
        # Begun where they were not, and gone on where they are.
        begun = identity(settled(stub))
        assert begun["planner_weights"] == {"root": str(tmp_path / "a")}
        (tmp_path / "gone").rename(tmp_path / "a")
        assert identity(settled(stub, begun)) == begun


def test_a_server_that_is_away_leaves_the_comparison_to_the_workers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        first = identity(settled(stub))
        stub.is_down = True
        with caplog.at_level(logging.WARNING):
            assert identity(settled(stub, first)) == first
        (record,) = caplog.records
        assert "by its name only: server" in record.getMessage()


def test_an_adapter_beside_its_base_is_recorded_too(tmp_path: Path) -> None:
    with serving(adapter(tmp_path / "a")) as stub:
        settings = {"frames": 2, "pixels": 1024}
        tuned = load_backbone(f"server:served@{stub.url}", adapter_model="mine", **settings)
        assert tuned.identity()["adapter_weights"] == str(tmp_path / "a")
        assert tuned.identity()["weights"] == "org/base"
        plain = load_backbone(f"server:served@{stub.url}", **settings)
        assert plain.identity()["adapter_weights"] is None
        tuned.close()
        plain.close()
