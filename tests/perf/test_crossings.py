"""perf/crossings.py counts the files in which a function runs, and no others."""

from __future__ import annotations

import threading

from perf import crossings
from videopro import benchmarks
from videopro.program import parse_program
from videopro.settings import did_you_mean


def test_a_question_stops_at_twenty_files_at_most_on_its_way_to_its_trace() -> None:
    """The limit that the layout was made for; see docs/architecture.md."""
    benchmark = benchmarks.load("pocket", split="test")
    (item,) = benchmark.select(limit=1)
    assert benchmark.fetch is not None
    benchmark.fetch([item])
    faces = crossings.packages_with_faces(crossings.imports(crossings.ROOT))
    for method in ("native", "videopro"):
        stops = crossings.read_by_stops(crossings.question_to_trace(method, item, benchmark), faces)
        assert 8 <= len(stops) <= 20, stops


def test_a_file_counts_if_a_function_of_it_runs_on_any_thread() -> None:
    did_you_mean("a", ["b"])
    with crossings.files_run() as files:
        thread = threading.Thread(target=parse_program, args=("<code>\nx = 1\n</code>",))
        thread.start()
        thread.join()
    parsing = {f"videopro/program/{name}.py" for name in ("parsing", "names")}
    parsing |= {"videopro/question/thoughts.py", "videopro/python_syntax.py"}
    assert parsing >= files >= {"videopro/program/parsing.py"}
    with crossings.files_run() as files:
        did_you_mean("a", ["b"])
    assert files == {"videopro/settings.py"}


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
    faces = crossings.packages_with_faces(graph)
    assert faces == {"videopro.methods", "videopro.video", "videopro.video.decoding"}
    files = ["videopro/methods/base.py", "videopro/video/frames.py", "videopro/video/video.py"]
    files += ["videopro/backbones/base.py", "modules/calls/handles.py", "videopro/prompts.py"]
    assert crossings.stops(files, {*faces, "videopro.modules.calls"}) == [
        "videopro.modules.calls",
        "videopro.video",
        "videopro/backbones/base.py",
        "videopro/methods/base.py",
        "videopro/prompts.py",
    ]
