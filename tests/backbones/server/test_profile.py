"""What a server tells of itself is asked once, by any number of threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.server_cases import Make
from tests.support.stub_server import StubServer
from videopro.backbones import folder_fingerprint
from videopro.backbones.server import RequestRefused
from videopro.backbones.server.profile import ServerProfile


class Meeting:
    """The settings of a backbone, read by two threads that meet: one that asks for the form of a video, with
    the profile in the middle of it, and one in the middle of the budget."""

    model, adapter_model, engine = "m", None, "auto"

    def __init__(self) -> None:
        self.in_form, self.in_budget = threading.Event(), threading.Event()

    @property
    def video(self) -> str:
        self.in_form.set()
        self.in_budget.wait(0.5)
        return "auto"

    @property
    def frames(self) -> None:
        if threading.current_thread().name == "budget":
            self.in_budget.set()
            self.in_form.wait(0.5)

    pixels = None


def refuse(rows: Any) -> Any:
    raise RequestRefused("no video here", 400)


def test_first_calls_of_two_threads_do_not_wait_for_each_other() -> None:
    """`functools.cached_property` of Python 3.11 has a lock of its own, which one thread took before ours and
    the other after it."""
    meeting: Any = Meeting()
    listing: Any = SimpleNamespace(
        url="http://127.0.0.1:9/v1", models=lambda: [{"id": "m", "owned_by": "stub"}]
    )
    profile = ServerProfile(meeting, listing, "X", refuse)
    found: dict[str, Any] = {}
    threads = [
        threading.Thread(target=lambda: found.update(form=profile.video_form), daemon=True),
        threading.Thread(target=lambda: found.update(budget=profile.budget), name="budget", daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {"form": "frames", "budget": (64, 50_176)}


def test_each_thing_is_asked_once(make: Make) -> None:
    """Sixteen threads, for which a lock that is not held would send several lists and several probes."""
    with StubServer(models=[{"id": "served", "owned_by": None}], takes_video="times") as stub:
        backbone = make(stub)
        start = threading.Barrier(16)

        def ask() -> None:
            start.wait()
            backbone.identity()
            _ = backbone.frames, backbone.profile.record, backbone.profile.weights

        with ThreadPoolExecutor(16) as threads:
            for _ in range(16):
                threads.submit(ask)
        assert [seen.path for seen in stub.seen].count("/v1/models") == 1
        # The engine, and a video at two start times.
        assert len(stub.chats) == 3
        assert len(backbone.notes) == 2


def test_the_version_of_vllm_and_the_files_of_its_model_are_known(make: Make, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    card = {"id": "served", "owned_by": "vllm", "root": str(tmp_path)}
    with StubServer(models=[card], version="0.33.0") as stub:
        backbone = make(stub)
        for _ in range(2):
            assert backbone.versions == {
                "vllm": "0.33.0",
                "served model": folder_fingerprint(tmp_path),
            }
        assert [seen.path for seen in stub.seen].count("/version") == 1
    with StubServer(models=[card | {"root": "org/name"}]) as stub:
        assert make(stub).versions == {}
    with StubServer(models=[{"id": "served", "owned_by": "sglang"}], version="1") as stub:
        assert make(stub).versions == {}
