"""/v1/chat/completions: a question as OpenAI's chat, with and without streaming.

The last user's message asks; the film is the last one that a message names. What happens on the way comes as
chunks whose delta has the key "videopro", with one event each; the answer comes as ordinary text.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from videopro.errors import Cancellation
from videopro.question import prompts
from videopro.serve.events import Event, EventStream, event_line, until_hang_up
from videopro.serve.problems import Problem, body_of
from videopro.serve.question_routes import MOST_EARLIER, AskedOptions
from videopro.serve.questions import HUNG_UP, AskedQuestion
from videopro.serve.requests import LONGEST_TEXT, AskRequest
from videopro.serve.state import ServerState, client_of, film_named, state_of

router = APIRouter()

# As nginx logs it; the client that it is for is gone.
_HUNG_UP_STATUS = 499
_DONE = event_line("[DONE]")


class StreamOptions(BaseModel):
    """Of a streamed reply."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """What is read of a request. Other fields say how a language model writes, and are not looked at: how a
    method writes is in its options."""

    model_config = ConfigDict(extra="ignore")

    model: str
    messages: list[dict[str, Any]] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: int | None = None
    tools: list[Any] | None = None
    videopro: AskedOptions = AskedOptions()


@router.post("/v1/chat/completions")
async def complete(request: Request, chat: ChatRequest) -> Response:
    """Answer a question about a film."""
    state = state_of(request)
    _check(chat, state)
    film, text, earlier = read_messages(chat.messages)
    cancellation = Cancellation()
    question: AskedQuestion | None = None

    def hang_up() -> None:
        cancellation.cancel()
        if question is not None:
            state.questions.stop(question, HUNG_UP)

    async def ask() -> None:
        nonlocal question
        options = chat.videopro
        prepared = AskRequest(
            await film_named(state, film, cancellation),
            text,
            tuple(options.choices),
            options.method,
            options.options,
            earlier,
            chat.max_completion_tokens or chat.max_tokens,
        )
        question = await to_thread.run_sync(state.questions.ask, prepared, client_of(request), cancellation)
        # Followed here, so that a client that hangs up before the answer stops the question.
        if not chat.stream:
            async for _ in question.log.follow():
                pass

    if not await until_hang_up(ask, request.receive):
        await to_thread.run_sync(hang_up)
        return Response(status_code=_HUNG_UP_STATUS)
    assert question is not None
    reply = _Reply(state, question)
    if chat.stream:
        with_usage = chat.stream_options is not None and chat.stream_options.include_usage
        return EventStream(reply.chunks(with_usage=with_usage), on_hang_up=hang_up)
    if question.problem is not None:
        raise question.problem
    return JSONResponse(reply.completion())


def _check(chat: ChatRequest, state: ServerState) -> None:
    name = state.answerer.name
    if chat.model != name:
        message = f"there is no model {chat.model[:100]!r} here; this server has {name!r}"
        raise Problem(404, message, code="model_not_found", param="model")
    if chat.n not in (None, 1):
        raise Problem(400, f"n is {chat.n}; a question has one answer: leave n out", param="n")
    if chat.tools:
        message = "tools are not called here: a method calls the video's modules itself; leave tools out"
        raise Problem(400, message, param="tools")


def read_messages(messages: list[dict[str, Any]]) -> tuple[str, str, tuple[prompts.Exchange, ...]]:
    """The film as the client names it, the question, and what was asked and answered about that film before.
    Raises Problem."""
    film, exchanges, text = "", list[prompts.Exchange](), ""
    question = ""
    for index, message in enumerate(messages):
        param, role = f"messages.{index}", message.get("role")
        if role == "assistant":
            answer = _texts(message.get("content") or "", param)
            if question:
                exchanges.append(prompts.Exchange(question, answer))
            question = ""
        elif role == "user":
            text, named = _user_message(message.get("content"), param)
            # What was said about another film is no context for this one.
            if named and named != film:
                film, exchanges = named, []
            question = text
        else:
            reason = "messages of users and assistants are read, as methods have their own prompts"
            refusal = f"{param}: role {str(role)[:40]!r}; {reason}: leave it out"
            raise Problem(400, refusal, param=param)
    if messages[-1].get("role") != "user":
        raise Problem(400, "the last message must be the user's question", param="messages")
    if not text.strip():
        raise Problem(400, "the last message has no text; ask a question in it", param="messages")
    if not film:
        refusal = (
            'no message names a film; upload it to /v1/files, and add {"type": "file", "file": '
            '{"file_id": ID}} to the content of the message'
        )
        raise Problem(400, refusal, code="no_film", param="messages")
    return film, text, tuple(exchanges[-MOST_EARLIER:])


def _user_message(content: Any, param: str) -> tuple[str, str]:
    """The text of a message, and the film that it names."""
    parts = content if isinstance(content, list) else []
    films = [name for part in parts if (name := _film_in(part, param))]
    if len({*films}) > 1:
        raise Problem(400, f"{param}: names {len({*films})} films; ask about one at a time", param=param)
    return _texts(content, param), films[0] if films else ""


def _film_in(part: Any, param: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return ""
    keys = {"file": ("file", "file_id"), "video_url": ("video_url", "url")}.get(str(kind))
    inner = part.get(keys[0]) if keys is not None else None
    name = inner.get(keys[1]) if keys is not None and isinstance(inner, dict) else None
    if isinstance(name, str) and name:
        return name
    message = (
        f"{param}: a part of type {str(kind)[:40]!r} is not read as it is; give text, "
        '{"type": "file", "file": {"file_id": ID}}, or {"type": "video_url", "video_url": {"url": ...}}'
    )
    raise Problem(400, message, param=param)


def _texts(content: Any, param: str) -> str:
    if isinstance(content, str):
        text = content
    elif isinstance(content, list):
        pieces = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        text = "\n".join(piece for piece in pieces if isinstance(piece, str))
    else:
        raise Problem(400, f"{param}: content must be a text or a list of parts", param=param)
    if len(text) > LONGEST_TEXT:
        message = f"{param}: the text has {len(text):,} characters; at most {LONGEST_TEXT:,} are read"
        raise Problem(400, message, param=param)
    return text


class _Reply:
    """The reply to a question, in OpenAI's forms."""

    def __init__(self, state: ServerState, question: AskedQuestion) -> None:
        self._question = question
        self._head = {
            "id": f"chatcmpl-{question.id}",
            "created": int(time.time()),
            "model": state.answerer.name,
        }

    def completion(self) -> dict[str, Any]:
        """The reply at once."""
        answer = self._answer()
        about = {
            "question_id": self._question.id,
            "answer": answer,
            "evidence": [event for event in self._question.log.all() if event["type"] == "evidence"],
        }
        message = {"role": "assistant", "content": answer_text(answer), "refusal": None, "videopro": about}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._ending()}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage_of(answer),
        }

    async def chunks(self, *, with_usage: bool) -> AsyncIterator[bytes]:
        """The reply as it comes."""
        # OpenAI's clients take the role from the first chunk.
        yield self._chunk({"role": "assistant", "content": ""})
        async for _, event in self._question.log.follow():
            yield self._chunk({"videopro": {**event, "question_id": self._question.id}})
        if self._question.problem is not None:
            yield event_line(body_of(self._question.problem))
        else:
            answer = self._answer()
            yield self._chunk({"content": answer_text(answer)})
            yield self._chunk({}, self._ending())
            if with_usage:
                chunk = {**self._head, "object": "chat.completion.chunk", "choices": []}
                yield event_line({**chunk, "usage": usage_of(answer)})
        yield _DONE

    def _chunk(self, delta: dict[str, Any], ending: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": ending}
        return event_line({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    def _answer(self) -> Event:
        return next(event for event in reversed(self._question.log.all()) if event["type"] == "answer")

    def _ending(self) -> Literal["stop", "length"]:
        trace = self._question.trace
        is_cut = trace is not None and trace.final is not None and trace.final.cut_at is not None
        return "length" if is_cut else "stop"


def answer_text(answer: Event) -> str:
    """The answer as text: the option with its letter, or the words."""
    if answer["letter"] is not None and answer["choice"] is not None:
        return f"{answer['letter']}. {answer['choice']}"
    return str(answer["text"]).strip()


def usage_of(answer: Event) -> dict[str, int]:
    """The tokens of all the models that were asked, as OpenAI counts them."""
    read, written = answer["cost"]["tokens_in"], answer["cost"]["tokens_out"]
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
