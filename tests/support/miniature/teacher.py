"""The teacher behind HTTP: python -m tests.support.miniature.teacher PORT

It speaks OpenAI's protocol and answers every chat with what the pocket world's offline teacher writes for the
prompt's question. Like a language model behind an API, it is given the text of the prompt and nothing else.
"""

import re
import sys
import threading
from typing import Any

from tests.support.stub_server import StubServer, completion, text_of
from videopro.pocket.teacher import PocketTeacher
from videopro.question import Question

_ASKED = re.compile(r".*^Question: (?P<text>.*?)\nChoices:\n(?P<choices>.*)\Z", re.MULTILINE | re.DOTALL)


def reply_to(prompt: str, seed: int) -> str:
    """The program for a prompt, or what the teacher makes of a program that failed or was unsure."""
    teacher = PocketTeacher()
    if "\nBuggy program:\n" in prompt or "\nExisting program:\n" in prompt:
        return teacher.refine(prompt, seed=seed).text
    asked = _ASKED.match(prompt)
    if asked is None:
        return "I cannot see a question in this."
    choices = re.split(r"^[A-J]\. ", asked["choices"], flags=re.MULTILINE)[1:]
    question = Question(asked["text"], tuple(choice.strip() for choice in choices))
    return teacher.plan(question, prompt, adaptive=False, seed=seed).text


def complete(body: dict[str, Any]) -> dict[str, Any]:
    """What a chat request gets; words are counted, where a server counts tokens."""
    prompt = text_of({"messages": body["messages"][-1:]})
    text = reply_to(prompt, int(body.get("seed") or 0))
    made = completion(text, None, prompt_tokens=len(prompt.split()))
    made["usage"]["completion_tokens"] = len(text.split())
    return made


if __name__ == "__main__":
    with StubServer(complete, models=[{"id": "narrator-1"}], port=int(sys.argv[1])):
        threading.Event().wait()
