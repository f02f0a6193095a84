"""/v1/videopro/questions: ask, follow, read, stop and delete questions."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from videopro.methods import last_event
from videopro.question import prompts
from videopro.report.pages import StoredPrompts, page, row
from videopro.serve.events import EventLog, EventStream
from videopro.serve.methods import LONGEST_TEXT, AskRequest, question_of
from videopro.serve.problems import Problem
from videopro.serve.questions import AskedQuestion, StoredQuestion
from videopro.serve.state import ServerState, client_of, state_of, video_named
from videopro.serve.store import StoredVideo
from videopro.traces import Trace, evidence, read_heads

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
def methods(request: Request) -> dict[str, Any]:
    """List the methods, with the options that clients can set."""
    answerer = state_of(request).answerer
    return {"object": "list", "default": answerer.method, "data": answerer.offered()}


@router.post("/v1/videopro/questions", status_code=202)
async def ask(request: Request, new: NewQuestion) -> dict[str, Any]:
    """Ask a question. Returns at once; follow its events."""
    state = state_of(request)
    stored = await video_named(state, new.file_id)
    earlier = await to_thread.run_sync(_conversation, state, new.follows, stored)
    prepared = AskRequest(stored, new.question, tuple(new.choices), new.method, new.options, earlier)
    question = await to_thread.run_sync(state.questions.ask, prepared, client_of(request))
    return {"id": question.id, "object": "videopro.question", "file_id": stored.id}


@router.get("/v1/videopro/questions")
async def questions(
    request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 200, file_id: str | None = None
) -> dict[str, Any]:
    """List questions, newest first; those about a video with their evidence."""
    return await to_thread.run_sync(_rows, state_of(request), limit, file_id)


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
    if state.questions.traces_file(id) is None:
        raise Problem(404, f"question {id[:60]!r} has no answer yet, so no record", code="no_answer")
    # The path on the server is the operator's.
    stored = _stored_video(state, record)
    name = record.video.key if stored is None else stored.name
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
        # Numbers of an earlier process are of another log: a reconnecting client gets at least the end.
        first = min(first, len(log.all()) - 1)
    return EventStream(log.lines(first))


@router.post("/v1/videopro/questions/{id}/stop")
async def stop(request: Request, id: str) -> dict[str, Any]:
    """Stop a question. Answered questions do not change."""
    state = state_of(request)
    question = state.questions.find(id)
    if isinstance(question, AskedQuestion):
        await to_thread.run_sync(state.questions.stop, question)
    return {"id": id, "object": "videopro.question", "stopped": True}


@router.delete("/v1/videopro/questions/{id}")
async def delete(request: Request, id: str) -> dict[str, Any]:
    """Delete a question with its answer; one that waits or runs is stopped first."""
    await state_of(request).questions.delete([id])
    return {"id": id, "object": "videopro.question", "deleted": True}


def _rows(state: ServerState, limit: int, file_id: str | None) -> dict[str, Any]:
    every = state.questions.list(file_id)
    names = {stored.id: stored.name for stored in state.videos.all()}
    rows = [{**each, "video": names.get(each["file_id"])} for each in every[:limit]]
    for each in rows if file_id is not None else ():
        each["evidence"] = []
        with suppress(Problem):  # It may have been deleted since.
            each["evidence"] = _evidence(state, state.questions.trace(state.questions.find(each["id"])))
    return {"object": "list", "data": rows, "has_more": len(every) > limit}


def _conversation(state: ServerState, id: str | None, stored: StoredVideo) -> tuple[prompts.Exchange, ...]:
    """The questions and answers about a video up to one, for a question that follows it. Raises Problem."""
    if id is None:
        return ()
    state.questions.find(id)
    rows = state.questions.list(stored.id)[::-1]
    last = next((each for each in rows if each["id"] == id), None)
    if last is None:
        message = f"question {id!r} is about another video; leave follows out, or ask about that one"
        raise Problem(400, message, code="other_video", param="follows")
    if last["answer"] is None:
        message = f"question {id!r} has no answer to follow up on; leave follows out"
        raise Problem(400, message, code="no_answer", param="follows")
    exchanges: dict[tuple[str, ...], prompts.Exchange] = {}
    for each in rows[: rows.index(last) + 1]:
        if answer := each["answer"]:
            # Asked again, with another method or by somebody else, it counts once.
            asked = each["question"], *each["choices"]
            exchanges.pop(asked, None)
            said = (answer["choice"] or answer["text"]).strip()
            exchanges[asked] = prompts.Exchange(each["question"], said)
    return tuple(exchanges.values())[-MOST_EARLIER:]


def _content(state: ServerState, id: str) -> dict[str, Any]:
    question = state.questions.find(id)
    # In this order: of a question that ends in between, the page is read again.
    summary, trace = question.summary, state.questions.trace(question)
    running = summary["state"] in ("waiting", "running")
    file = state.questions.traces_file(id)
    prompts_of_run = StoredPrompts({} if file is None else read_heads(file))
    content, _ = page(trace, _FRAMES, prompts_of_run)
    entry = row(trace)
    stored = _stored_video(state, trace)
    name = trace.video.key if stored is None else stored.name
    content["video"] |= {"path": name, "key": name}
    entry["video"] = name
    if running or summary["state"] == "stopped":
        content["state"] = entry["state"] = "running" if running else "stopped"
    if summary["error"] is not None and content["error"] is None:
        content["error"] = {**summary["error"], "line": None, "log": ""}
    return {
        **content,
        "beginnings": prompts_of_run.beginnings,
        "file_id": summary["file_id"],
        "method": summary["method"],
        "running": running,
        "seconds": summary["seconds"],
        "answer_evidence": _evidence(state, trace),
        "row": entry,
    }


def _evidence(state: ServerState, trace: Trace) -> list[dict[str, Any]]:
    stored = _stored_video(state, trace)
    return evidence(trace, None if stored is None else (stored.width, stored.height))


def _stored_video(state: ServerState, trace: Trace) -> StoredVideo | None:
    """The video of a question; None if it was deleted."""
    try:
        return state.videos.get(trace.video.key)
    except Problem:
        return None


def _events_of(state: ServerState, question: StoredQuestion) -> EventLog:
    """The events of a question of an earlier process: its evidence and its end. The rest is in its record."""
    trace, log = state.questions.trace(question), EventLog()
    for piece in _evidence(state, trace):
        log.add({"type": "evidence", **piece})
    log.add(last_event(trace, question_of(trace.question, trace.choices)))
    log.close()
    return log
