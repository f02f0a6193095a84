"""How the code is built stays within limits (docs/architecture.md), and perf/house.py counts it right."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from perf.counting.imports import circles, floors, shortest_circle
from perf.counting.rooms import Rooms, rooms
from perf.counting.sources import Source, sources
from perf.counting.traced.sitecustomize import CallTrace
from perf.counting.ways import packages_with_faces, stops, way_of
from perf.house import faces_of
from tests.support import ROOT
from tests.support.benchmark_runs import InProcessSupervisor, in_this_process  # noqa: F401
from videopro.cli import did_you_mean
from videopro.commands.infer import main
from videopro.executor import parsing
from videopro.question import thoughts

# Imports that import_module makes by name count too.
MOST_ROOMS = 21
MOST_FLOORS = 10
# python perf/house.py --edges lists all.
MOST_ARROWS = 137
# The files and packages that a reader follows from a worker's search for work to the trace.
MOST_STOPS = 20


@pytest.fixture(scope="module")
def house() -> Rooms:
    return rooms(sources(ROOT))


def test_the_rooms_of_the_house_stay_few_and_in_order(house: Rooms) -> None:
    imported = [(name, target) for name, targets in house.files.items() for target in targets]
    among_files = circles(imported)
    among_rooms = circles(house.arrows)
    assert among_rooms == []
    assert among_files == []
    assert 10 <= len(house.names) <= MOST_ROOMS, house.names
    assert 5 <= len(floors(house.arrows)) <= MOST_FLOORS, floors(house.arrows)
    assert 30 <= len(house.arrows) <= MOST_ARROWS, "python perf/house.py --edges shows what is behind each"


@pytest.mark.parametrize(
    ("options", "types"),
    [
        (["--method", "native"], {"answer": 6}),
        (
            ["--method", "videopro", "--backbone", "adapter=pocket-sft", "--options", "temperature=0.0"],
            {"answer": 8, "plan": 6},
        ),
    ],
)
def test_a_question_crosses_few_files_and_types_on_its_way_to_its_trace(
    house: Rooms,
    options: list[str],
    types: Mapping[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limits that the layout was made for."""
    trace = CallTrace("run_worker", ROOT, tmp_path / "traced.json")
    work = InProcessSupervisor.run

    def traced_work(self: InProcessSupervisor, *arguments: Any) -> Iterator[int]:
        # Not earlier: it slows the imports.
        trace.start()
        return work(self, *arguments)

    # A training that attends to parts of rows by themselves, in an earlier test, takes all attention over.
    monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", sdpa_attention_forward)

    monkeypatch.setattr(InProcessSupervisor, "run", traced_work)
    question = ["--benchmark", "pocket", "--split", "test", "--limit", "1", "--model", "pocket"]
    run = tmp_path / "run"
    assert main([*question, *options, "--output", str(run)]) == 0
    way = way_of("question", tmp_path / "traced.json", run / "traces.jsonl")
    stopped = stops(way.files, faces_of(house))
    assert 8 <= len(stopped) <= MOST_STOPS, "\n".join(stopped)
    assert way.types.keys() == types.keys()
    for reply, passed in way.types.items():
        assert 2 <= len(passed) <= types[reply], passed


# ---- the counting ----------------------------------------------------------------------------------------


def written(root: Path, files: Mapping[str, str]) -> dict[str, Source]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sources(root)


def test_every_way_to_import_is_an_arrow(tmp_path: Path) -> None:
    (tmp_path / "videopro").mkdir()
    (tmp_path / "modules").mkdir()
    (tmp_path / "videopro" / "modules").symlink_to("../modules")
    files = written(
        tmp_path,
        {
            "videopro/__init__.py": "from videopro import errors\n",
            "videopro/__main__.py": "from videopro.ask import main\n\ndef run():\n    main()\n",
            "videopro/errors.py": '"""At the bottom."""\n\nclass Error(Exception):\n    pass\n',
            "videopro/ask.py": "from videopro.commands.ask import main\nif __name__ == 'x':\n    main()\n",
            "videopro/commands/__init__.py": "",
            "videopro/commands/ask.py": "def main():\n    from videopro.methods import base\n",
            "videopro/commands/table.py": "MODULE = 'videopro.methods.native'\n",
            "videopro/commands/run.py": (
                "from importlib import import_module\nfrom .table import MODULE\nimport_module(MODULE)\n"
            ),
            "videopro/methods/__init__.py": "",
            "videopro/methods/base.py": (
                "import typing\nif typing.TYPE_CHECKING:\n    from videopro.modules.library import X\n"
            ),
            "videopro/methods/native.py": "from ..errors import Error\nfrom . import base\n",
            "modules/__init__.py": "import importlib\nimportlib.import_module('videopro.pocket.world')\n",
            "modules/library.py": "X = 1\n",
            "videopro/pocket/__init__.py": "",
            "videopro/pocket/world.py": "def load(name):\n    __import__(f'videopro.planners.{name}')\n",
            "videopro/planners/__init__.py": "",
            "videopro/planners/server.py": "import videopro.modules\nimport videopro.errors\n",
            "videopro/serving/__init__.py": "import videopro.ask\n",
            "launch/shown.py": "import videopro.ask\n",  # no room of the package
        },
    )
    house = rooms(files)
    room = "videopro.{}".format
    assert set(house.arrows) == {
        (room("serving"), room("commands")),  # through the door
        (room("commands"), room("methods")),  # inside a function, and by a name of a table
        (room("methods"), room("modules")),  # for types
        (room("methods"), room("errors")),  # relative
        (room("modules"), room("pocket")),  # by name
        (room("pocket"), room("planners")),  # by the start of a name
        (room("planners"), room("modules")),
        (room("planners"), room("errors")),
    }
    assert house.arrows[room("commands"), room("methods")] == [
        ("videopro.commands.ask", "videopro.methods.base"),
        ("videopro.commands.run", "videopro.methods.native"),
    ]
    assert house.doors == ["videopro", "videopro.__main__", "videopro.ask"]
    inside = ("commands", "errors", "methods", "modules", "planners", "pocket", "serving")
    assert house.names == [*map(room, inside)]
    ring = [room("modules"), room("planners"), room("pocket")]
    assert circles(house.arrows) == [ring]
    around = [room("modules"), room("pocket"), room("planners"), room("modules")]
    assert shortest_circle(ring, house.arrows) == around
    alone = [[room(name)] for name in ("serving", "commands", "methods", "errors")]
    assert floors(house.arrows) == [*alone[:3], ring, alone[3]]


def file_of(module: object) -> str:
    return str(Path(inspect.getfile(module)).resolve().relative_to(ROOT))  # type: ignore[arg-type]


def test_a_file_counts_if_a_function_of_it_is_called_on_any_thread(tmp_path: Path) -> None:
    def reading() -> None:
        thread = threading.Thread(target=parsing.parse_program, args=("<code>\nx = 1\n</code>",))
        thread.start()
        thread.join()

    def guessing() -> None:
        did_you_mean("a", ["b"])

    traced = {}
    for function in (reading, guessing):
        output = tmp_path / f"{function.__name__}.json"
        CallTrace(function.__name__, ROOT, output).start()
        did_you_mean("before", ["it"])
        function()
        did_you_mean("after", ["it"])
        traced[function.__name__] = set(way_of("", output).files)
    parsers = {file_of(module) for module in (parsing, thoughts)}
    assert parsers >= traced["reading"] >= {file_of(parsing)}
    assert traced["guessing"] == {file_of(did_you_mean)}


def test_a_package_that_others_know_by_its_face_is_one_stop() -> None:
    graph = {
        "videopro.methods": [],
        "videopro.methods.base": ["videopro.video", "videopro.backbones.base"],
        "videopro.video": ["videopro.video.frames"],
        "videopro.video.frames": ["videopro.video.decoding.exact"],
        "videopro.video.decoding": [],
        "videopro.video.decoding.exact": [],
        "videopro.backbones": [],
        "videopro.backbones.base": [],
    }
    faces = packages_with_faces(graph)
    assert faces == {"videopro.methods", "videopro.video", "videopro.video.decoding"}
    files = ["videopro/methods/base.py", "videopro/video/frames.py", "videopro/video/video.py"]
    files += ["videopro/backbones/base.py", "modules/calls/handles.py", "videopro/prompts.py"]
    assert stops([*files, "videopro/storage/writing.py"], {*faces, "videopro.modules.calls"}) == [
        "videopro.modules.calls",
        "videopro.video",
        "videopro/backbones/base.py",
        "videopro/methods/base.py",
        "videopro/prompts.py",
    ]
