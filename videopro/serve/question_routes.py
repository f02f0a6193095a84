"""/v1/videopro/questions: ask, follow, read and stop questions."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from videopro.methods import evidence, last_event
from videopro.question import prompts
from videopro.report.pages import StoredPrompts, page, row
from videopro.serve.events import EventLog, EventStream
from videopro.serve.films import Film
from videopro.serve.methods import LONGEST_TEXT, AskRequest
from videopro.serve.problems import Problem
from videopro.serve.questions import AskedQuestion, StoredQuestion, ended_as, question_of
from videopro.serve.state import ServerState, client_of, film_named, state_of
from videopro.traces import Trace, read_heads

router = APIRouter()

_FRAMES = 16
MOST_EARLIER = 16


class AskedOptions(BaseModel):
    """The field "videopro" of a request."""

    model_config = ConfigDict(extra="forbid")

    choices: list[Annotated[str, Field(max_length=LONGEST_TEXT)]] = Field(default=[], max_length=26)
    method: str | None = None
    options: dict[str, Any] = {}


class NewQuestion(AskedOptions):
    """A question about a video."""

    question: str = Field(min_length=1, max_length=LONGEST_TEXT)
    file_id: str = Field(min_length=1, max_length=4096)
    """The id of a video, or folder:RELATIVE/PATH."""
    follows: str | None = None
    """The id of an earlier question that this one follows up on."""


@router.get("/v1/videopro/methods")
async def methods(request: Request) -> dict[str, Any]:
    """List the methods, with the options that clients can set."""
    answerer = state_of(request).answerer
    return {"object": "list", "default": answerer.method, "data": answerer.offered()}


@router.post("/v1/videopro/questions", status_code=202)
async def ask(request: Request, new: NewQuestion) -> dict[str, Any]:
    """Ask a question. Returns at once; follow its events."""
    state = state_of(request)
    earlier = await to_thread.run_sync(_conversation, state, new.follows)
    film = await film_named(state, new.file_id)
    prepared = AskRequest(film, new.question, tuple(new.choices), new.method, new.options, earlier)
    question = await to_thread.run_sync(state.questions.ask, prepared, client_of(request))
    return {"id": question.id, "object": "videopro.question", "film": film.id}


@router.get("/v1/videopro/questions")
async def questions(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> dict[str, Any]:
    """List questions, newest first."""
    rows = await to_thread.run_sync(state_of(request).questions.list)
    return {"object": "list", "data": rows[:limit], "has_more": len(rows) > limit}


@router.get("/v1/videopro/questions/{id}")
async def one_question(request: Request, id: str) -> dict[str, Any]:
    """A question as the viewer shows it, with its rounds so far."""
    state = state_of(request)
    return await to_thread.run_sync(_content, state, id)


@router.get("/v1/videopro/questions/{id}/trace")
async def trace(request: Request, id: str) -> Response:
    """The full record of an answered question, as in a run."""
    state = state_of(request)
    record = await to_thread.run_sync(lambda: state.questions.trace(state.questions.find(id)))
    if record is None:
        raise Problem(404, f"question {id[:60]!r} has no answer yet, so no record", code="no_answer")
    # The path on the server is the operator's.
    film = _film_of(state, record)
    name = record.video.key if film is None else film.name
    public = replace(record, video=replace(record.video, path=name))
    return Response(public.to_line(), media_type="application/json")


@router.get("/v1/videopro/questions/{id}/events")
async def events(request: Request, id: str, last_event_id: Annotated[str, Header()] = "") -> Response:
    """Stream the events of a question from the first one, or after the header Last-Event-ID."""
    state = state_of(request)
    question = state.questions.find(id)
    # No log has as many events as there are numbers of ten digits.
    first = int(last_event_id) + 1 if re.fullmatch("[0-9]{1,9}", last_event_id) else 0
    if isinstance(question, AskedQuestion):
        log = question.log
    else:
        log = await to_thread.run_sync(_events_of, state, question)
        # Numbers of an earlier process are of another log: who comes back is told the end at least.
        first = min(first, len(log.all()) - 1)
    return EventStream(log.lines(first))


@router.delete("/v1/videopro/questions/{id}")
async def stop(request: Request, id: str) -> dict[str, Any]:
    """Stop a question. Answered questions do not change."""
    state = state_of(request)
    question = state.questions.find(id)
    if isinstance(question, AskedQuestion):
        await to_thread.run_sync(state.questions.stop, question)
    return {"id": id, "object": "videopro.question", "stopped": True}


def _conversation(state: ServerState, id: str | None) -> tuple[prompts.Exchange, ...]:
    """A question with its answer, for a follow-up."""
    if id is None:
        return ()
    trace = state.questions.trace(state.questions.find(id))
    if trace is None or trace.final is None:
        message = f"question {id!r} has no answer to follow up on; leave follows out"
        raise Problem(400, message, code="no_answer", param="follows")
    letter = trace.final.letter
    question = question_of(trace.question, trace.choices)
    answer = question.choice(letter) if letter in question.letters and letter else trace.final.raw
    return (prompts.Exchange(trace.question, answer.strip()),)


def _content(state: ServerState, id: str) -> dict[str, Any]:
    question = state.questions.find(id)
    trace = state.questions.trace(question)
    running = isinstance(question, AskedQuestion) and not question.log.is_closed
    if trace is None:
        assert isinstance(question, AskedQuestion)
        trace = question.so_far()
    file = state.questions.traces_file(id)
    prompts_of_run = StoredPrompts({} if file is None else read_heads(file))
    content, _ = page(trace, _FRAMES, prompts_of_run)
    entry = row(trace)
    film = _film_of(state, trace)
    name = trace.video.key if film is None else film.name
    content["video"] |= {"path": name, "key": name}
    entry["video"] = name
    ended = question.state if isinstance(question, AskedQuestion) else ended_as(trace)
    if running or ended == "stopped":
        content["state"] = entry["state"] = "running" if running else "stopped"
    problem = question.problem if isinstance(question, AskedQuestion) else None
    if problem is not None and content["error"] is None:
        kind = "Cancelled" if ended == "stopped" else problem.code or "Error"
        content["error"] = {"type": kind, "message": str(problem), "line": None, "log": ""}
    return {
        **content,
        "beginnings": prompts_of_run.beginnings,
        "film": trace.video.key,
        "running": running,
        # Since it was asked: the clock of a browser may go wrong.
        "seconds": max(0.0, time.time() - question.asked_at),
        "answer_evidence": evidence(trace, None if film is None else (film.width, film.height)),
        "row": entry,
    }


def _film_of(state: ServerState, trace: Trace) -> Film | None:
    """The video of a question; None if it was deleted."""
    try:
        return state.films.get(trace.video.key)
    except Problem:
        return None


def _events_of(state: ServerState, question: StoredQuestion) -> EventLog:
    """The events of a question of an earlier process: its evidence and its end. The rest is in its record."""
    trace, log = state.questions.trace(question), EventLog()
    assert trace is not None
    film = _film_of(state, trace)
    for piece in evidence(trace, None if film is None else (film.width, film.height)):
        log.add({"type": "evidence", **piece})
    log.add(last_event(trace, question_of(trace.question, trace.choices)))
    log.close()
    return log
