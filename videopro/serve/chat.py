"""/v1/chat/completions: a question as an OpenAI chat, with and without streaming.

The last user message is the question, about the last video that a message names. In a stream, events are
chunks whose delta has the key "videopro"; the answer is ordinary text.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from videopro.question import prompts
from videopro.serve.events import Event, EventStream, event_line
from videopro.serve.guards import HANG_UP
from videopro.serve.methods import LONGEST_TEXT, AskRequest
from videopro.serve.problems import Problem, body_of
from videopro.serve.question_routes import MOST_EARLIER, AskedOptions
from videopro.serve.questions import AskedQuestion
from videopro.serve.state import ServerState, client_of, state_of, video_named

router = APIRouter()

# As nginx logs it; the client that it is for is gone.
_HUNG_UP_STATUS = 499
_DONE = event_line("[DONE]")


class _Text(BaseModel):
    type: Literal["text"]
    text: str = Field(max_length=LONGEST_TEXT)


class _FileId(BaseModel):
    file_id: str = Field(min_length=1)


class _File(BaseModel):
    type: Literal["file"]
    file: _FileId


class _Url(BaseModel):
    url: str = Field(min_length=1)


class _VideoUrl(BaseModel):
    type: Literal["video_url"]
    video_url: _Url


class Message(BaseModel):
    """A message. Methods have their own prompts, so those of the system and the developer are not read."""

    role: Literal["user", "assistant", "system", "developer"]
    content: (
        Annotated[str, Field(max_length=LONGEST_TEXT)]
        | list[Annotated[_Text | _File | _VideoUrl, Field(discriminator="type")]]
        | None
    ) = None

    @property
    def text(self) -> str:
        """The text parts."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if isinstance(part, _Text))
        return self.content or ""

    @property
    def videos(self) -> set[str]:
        """The videos, as the client names them."""
        parts = self.content if isinstance(self.content, list) else []
        files = {part.file.file_id for part in parts if isinstance(part, _File)}
        return files | {part.video_url.url for part in parts if isinstance(part, _VideoUrl)}


class StreamOptions(BaseModel):
    """Options of a streamed reply."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """The request. Other fields, such as temperature, are ignored: the options of a method control how it
    writes."""

    model: str
    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    # A question has one answer, and a method calls the video's modules itself.
    n: Literal[1] | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    videopro: AskedOptions = AskedOptions()


@router.post("/v1/chat/completions")
async def complete(request: Request, chat: ChatRequest) -> Response:
    """Answer a question about a video, as an OpenAI chat."""
    state, hang_up = state_of(request), request.scope[HANG_UP]
    if chat.model != state.answerer.name:
        message = f"unknown model {chat.model[:100]!r}; this server has {state.answerer.name!r}"
        raise Problem(404, message, code="model_not_found", param="model")
    video, text, earlier = read_messages(chat.messages)
    question: AskedQuestion | None = None

    async def ask() -> None:
        nonlocal question
        options = chat.videopro
        prepared = AskRequest(
            await video_named(state, video),
            text,
            tuple(options.choices),
            options.method,
            options.options,
            earlier,
            chat.max_completion_tokens or chat.max_tokens,
        )
        question = await to_thread.run_sync(state.questions.ask, prepared, client_of(request), hang_up)
        if not chat.stream:
            async for _ in question.log.follow():
                pass

    if not await until_hang_up(ask, request.receive):
        return Response(status_code=_HUNG_UP_STATUS)
    assert question is not None
    reply = _Reply(state, question)
    if chat.stream:
        options = chat.stream_options or StreamOptions()
        return EventStream(reply.chunks(with_usage=options.include_usage))
    if question.problem is not None:
        raise question.problem
    return JSONResponse(reply.completion())


async def until_hang_up(work: Callable[[], Awaitable[object]], receive: Receive) -> bool:
    """Do some work until the client disconnects. Returns whether it was completed. Raises what the work
    raises."""
    is_done, error = False, None
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            await work()
            is_done = True
        except Exception as failure:
            # A group would wrap it.
            error = failure
        group.cancel_scope.cancel()
    if error is not None:
        raise error
    return is_done


def read_messages(messages: list[Message]) -> tuple[str, str, tuple[prompts.Exchange, ...]]:
    """The client's name of the video, the question, and the earlier questions and answers about that video.
    Raises Problem."""
    video, exchanges, question = "", list[prompts.Exchange](), ""
    last = ""
    for index, message in enumerate(messages):
        if message.role in ("system", "developer"):
            continue
        last = message.role
        if last == "assistant":
            if question:
                exchanges.append(prompts.Exchange(question, message.text))
            question = ""
            continue
        if len(message.videos) > 1:
            refusal = f"names {len(message.videos)} videos; ask about one at a time"
            raise Problem(400, f"messages.{index}: {refusal}", param=f"messages.{index}")
        # What was said about another video is no context for this one.
        if message.videos - {video}:
            (video,), exchanges = message.videos, []
        question = message.text
    if last != "user" or not question.strip():
        raise Problem(400, "the last message must be the user's question", param="messages")
    if not video:
        refusal = (
            'no message names a video; upload one to /v1/files, and add {"type": "file", "file": '
            '{"file_id": ID}} to the content of the message'
        )
        raise Problem(400, refusal, code="no_video", param="messages")
    return video, question, tuple(exchanges[-MOST_EARLIER:])


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
        """The whole reply."""
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
        """The reply as a stream."""
        # OpenAI's clients take the role from the first chunk.
        yield self._chunk({"role": "assistant", "content": ""})
        async for _, event in self._question.log.follow():
            if event is None:
                yield event_line(None)
            else:
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
    """The tokens of all models, in OpenAI's format."""
    read, written = answer["cost"]["tokens_in"], answer["cost"]["tokens_out"]
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
