"""The pages of runs, each made when a browser asks for it: `videopro view --port`.

Scripts and addresses are those of the pages on disk (`videopro.report.pages`), but each frame is an image of
its own. An open page asks for what its run has answered since. Nothing is written, and only the viewer's
files, the data of these runs and the videos that their traces name are served.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from starlette.responses import Response

from videopro.errors import RunError, VideoError
from videopro.report.pages import (
    LATER,
    StoredPrompts,
    about_run,
    assignment,
    open_video,
    overview_row,
    packed,
    page,
    page_name,
    questions_list,
    read_asset,
    row,
    set_name,
    video_source,
)
from videopro.runs import RunFolder, RunTail, read_grades, recorded_protocol
from videopro.serve.app import StoppableServer, address_of, asset_reply, guard
from videopro.serve.file_routes import UNCHANGING, Box, Time, jpeg, video_file
from videopro.serve.guards import ServeLimits
from videopro.serve.problems import Problem
from videopro.traces import Trace, VideoRef, read_heads
from videopro.video import Video

# The videos that were opened last.
_open = lru_cache(64)(open_video)
_CHUNK = 8 << 20
"""Bytes of traces that a request reads, which takes about half a second; the browser then asks for more."""
_ROWS = 5000
"""Rows in a reply: as JSON, all of a large run take half a gigabyte for a moment."""
_POLLS = 150
"""Over so many looks at a run, at least two seconds apart, its speed is measured: loading the model does not
distort the estimate for long."""
# Counting the answers of a large run takes a second; at most this share of the time is spent on it.
_COUNTING_SHARE = 0.1

T = TypeVar("T")


class RunPages:
    """The pages of a run, which may be in progress. Reads its traces as far as pages need them.
    Thread-safe."""

    def __init__(self, path: Path, max_frames: int, side: int, overview: str = "") -> None:
        """`max_frames`: most thumbnails of a call; `side`: their longer side in pixels; `overview`: as in
        `about_run`. Raises RunError if `path` is not a run folder."""
        self._folder = RunFolder(path)
        self._protocol = recorded_protocol(self._folder)
        self._tail = RunTail(self._folder, self._protocol)
        self._about = about_run(self._folder, overview)
        # So that a page that was left open takes no rows of another run that is served at its address.
        self._about["log"] = set_name(str(path.resolve()), self._folder.key() or "")
        self._max_frames = max_frames
        self._side = side
        self._lock = threading.Lock()
        self._list = questions_list(())
        self._ids: dict[str, str] = {}
        """The questions, by the names of their pages."""
        self._videos: dict[str, VideoRef] = {}
        self._numbers = self._tail.headline()
        self._count_at = 0.0
        self._seen: deque[tuple[float, int]] = deque(maxlen=_POLLS)
        """Time (s) and questions done then."""

    def index(self, after: int = 0) -> dict[str, Any]:
        """data/index.js: the run, its progress, and its list of questions, without the first `after` lines of
        the traces. A question that was answered again has several rows, of which the last counts."""
        problem, has_more = "", False
        with self._lock:
            # First, so that everything appended before the run ended is read below.
            is_running = self._folder.is_running()
            try:
                has_more = self._read_on()
            except RunError as error:
                problem = str(error)
            answered = self._tail.traces.keys()
            requested = set(self._folder.requested_ids()) or answered
            done, now = len(requested & answered), time.monotonic()
            # What was answered before anyone looked took none of the measured time.
            if not has_more and (not self._seen or now - self._seen[-1][0] >= 1):
                self._seen.append((now, done))
            began, before = self._seen[0] if self._seen else (now, done)
            rate = (done - before) / (now - began) if done > before else None
            if self._numbers["questions"] != len(answered) and now >= self._count_at:
                self._numbers = self._tail.headline()
                self._count_at = time.monotonic() + (time.monotonic() - now) / _COUNTING_SHARE
            rows = self._list["rows"]
            # The traces are others than those that the page has read.
            after = 0 if after > len(rows) and not has_more else after
            progress: dict[str, Any] = {"done": done, "total": len(requested), "rate": rate}
            progress |= {"running": is_running, "reading": has_more, "problem": problem}
            known = {"numbers": self._numbers, "progress": progress, "columns": self._list["columns"]}
            sent = rows[after : after + _ROWS]
            more = {"rows": sent, "after": after, "next": after + len(sent), "count": len(rows)}
            return {**self._about, **known, **more}

    def question(self, name: str) -> dict[str, Any]:
        """The content of a question's page, by its name. Raises Problem for an unknown one."""
        trace = self.trace(name)
        prompts = StoredPrompts(read_heads(self._folder.traces))
        grades = read_grades(self._folder.grades, self._protocol.judge)
        content, _ = page(trace, self._max_frames, prompts, grades.get(trace.question_id))
        source = video_source(trace.video.path, Path())
        if "url" in source:
            source = {"url": f"videos/{content['video']['pictures']}"}
        content["video"]["source"] = source
        return {**content, "beginnings": prompts.beginnings}

    def pictures(self, name: str) -> dict[str, Any]:
        """Where the frames of a video are, by its name: {url, side, width, height}; or why there are none
        (`error`). Raises Problem for an unknown one."""
        try:
            video = self.opened(name)
        except VideoError as error:
            return {"cells": {}, "error": str(error)}
        size = {"width": video.width, "height": video.height}
        return {"url": f"frames/{name}", "side": self._side, **size, "error": ""}

    def video(self, name: str) -> VideoRef:
        """A video of the run, by its name. Raises Problem for an unknown one."""
        return self._find(self._videos, name)

    def opened(self, name: str) -> Video:
        """A video of the run, opened. Raises Problem, and VideoError if it cannot be read."""
        ref = self.video(name)
        return _open(ref.path, ref.id)

    def trace(self, name: str) -> Trace:
        """The trace of a question, by the name of its page. Raises Problem."""
        id = self._find(self._ids, name)
        with self._lock:
            return self._tail.reread(id)

    def _find(self, known: Mapping[str, T], name: str) -> T:
        with self._lock:
            while name not in known and self._read_on():
                pass
        if name not in known:
            raise Problem(404, "no such page in this run", code="no_page")
        return known[name]

    def _read_on(self) -> bool:
        """Read more of the traces. Returns whether there were any."""
        new = [self._folder.with_video(trace) for trace in self._tail.refresh(_CHUNK)]
        for trace in new:
            self._ids[page_name(trace.question_id)] = trace.question_id
            self._videos.setdefault(set_name(trace.video.path, trace.video.id), trace.video)
        if new:
            more = questions_list([row(trace) for trace in new])
            self._list["columns"] = more["columns"]
            self._list["rows"] += more["rows"]
        return bool(new)


async def _run_of(request: Request) -> RunPages:
    runs: Mapping[str, RunPages] = request.app.state.runs
    name = request.path_params.get("run", "")
    if name not in runs:
        raise Problem(404, "no such run here", code="no_run")
    return runs[name]


Run = Annotated[RunPages, Depends(_run_of)]
router = APIRouter()


@router.get("/data/index.js")
def index(run: Run, after: Annotated[int, Query(ge=0)] = 0) -> Response:
    """The run and its questions."""
    return _script("index", "", run.index(after))


@router.get("/data/questions/{name}.js")
def question(run: Run, name: str) -> Response:
    """A question."""
    return _script("page", name, run.question(name))


@router.get("/data/traces/{name}.js")
def source(run: Run, name: str) -> Response:
    """A question's trace."""
    return _script("trace", name, packed(run.trace(name)))


@router.get("/pictures/{name}.js")
def pictures(run: Run, name: str) -> Response:
    """Where a video's frames are."""
    return _script("pictures", name, run.pictures(name))


@router.get("/frames/{name}")
def frame(run: Run, name: str, time: Time, side: Annotated[int, Query(ge=1)], box: Box = None) -> Response:
    """A frame of a video, or a part of it, as JPEG."""
    image = jpeg(run.opened(name), time + LATER, side, box)
    return Response(image, media_type="image/jpeg", headers=UNCHANGING)


@router.get("/videos/{name}")
def video(run: Run, name: str) -> Response:
    """A video file, if it is still the one that the run used."""
    try:
        return video_file(Path(run.opened(name).path))
    except VideoError as error:
        raise Problem(404, str(error), code="no_video") from error


@router.get("/")
@router.get("/{name}")
async def asset(run: Run, name: str = "index.html") -> Response:
    """A file of the viewer."""
    return asset_reply(name, read_asset(name))


def _script(kind: str, name: str, content: Any) -> Response:
    text = assignment(kind, name, content)
    return Response(text, media_type="text/javascript", headers={"Cache-Control": "no-store"})


def create_viewer(runs: Mapping[str, RunPages], hosts: tuple[str, ...] = ()) -> FastAPI:
    """The application. A single run has its pages at /, several have them at /runs/NAME/, and a list at /.
    `hosts`: the server's names, in addition to localhost."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.runs = runs
    if "" not in runs:

        @app.get("/data/runs.js")
        def listed() -> Response:
            abouts = {name: run.index() for name, run in runs.items()}
            rows = [
                {**overview_row(name, f"runs/{name}/index.html", about), "progress": about["progress"]}
                for name, about in abouts.items()
            ]
            return _script("runs", "", rows)

        @app.get("/")
        @app.get("/{name}")
        async def of_all(name: str = "index.html") -> Response:
            name = "runs.html" if name == "index.html" else name
            return asset_reply(name, read_asset(name))

    app.include_router(router, prefix="" if "" in runs else "/runs/{run}")
    guard(app, ServeLimits(hosts=hosts), lambda route, status: None)
    return app


def show(app: FastAPI, sock: socket.socket, on_start: Callable[[str], None]) -> None:
    """Serve the pages until a signal ends the process. `on_start` receives the address."""
    StoppableServer(app, lambda: on_start(address_of(sock)), lambda: None).run([sock])
