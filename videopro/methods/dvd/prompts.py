"""The prompts of Deep Video Discovery, in our words."""

from __future__ import annotations

import json
from collections.abc import Sequence

from videopro.methods.agents import Tool, question_text
from videopro.methods.dvd.database_file import Subject
from videopro.question import Question

# Raised when a prompt of the database changes, so that databases of other prompts are not used.
DATABASE_PROMPTS = 1


NO_CALL = "No tool was called. Call one; to end the search, call answer."


def caption(start: float, end: float, registry: str, spoken: str) -> str:
    """Ask for a clip's caption and the subjects in it (section 3.1)."""
    parts = [f"The frames are from {start:.1f} to {end:.1f} s of a video."]
    if spoken:
        parts.append(f"Spoken meanwhile:\n{spoken}")
    if registry:
        parts.append(
            "Subjects known so far, with looks, identity, actions and times. Use the same name for the same "
            f"subject:\n{registry}"
        )
    parts.append(
        "Describe what is shown and what happens, with details that may be asked for later. List every "
        "subject (person, animal, thing of importance) in these frames. Reply with a JSON object only: "
        '{"caption": "...", "subjects": [{"name": "...", "appearance": "...", "identity": "...", '
        '"actions": ["..."]}]}'
    )
    return "\n\n".join(parts)


def merge(mentions: Sequence[Subject]) -> str:
    """Ask which subjects of single clips are the same (the parallel variant)."""
    entries = "\n".join(f"{number}: {mention.describe()}" for number, mention in enumerate(mentions))
    return (
        "These subjects were noted clip by clip in one video. One subject may have been given several names, "
        f"and two may have the same:\n{entries}\n\nPut together those that are the same, by their numbers. "
        "Reply with a JSON object only, each subject once: "
        '{"subjects": [{"name": "...", "mentions": [0, 3], "appearance": "...", "identity": "...", '
        '"actions": ["..."]}]}'
    )


def events(query: str, duration: float) -> str:
    """Ask what happens in the video that concerns a query (global browse)."""
    return (
        f"The frames are spread over a whole video of {duration:.0f} s. Describe the events that bear on "
        f"this query, in their order and with their times:\n{query}"
    )


def inspect(question: str) -> str:
    """Ask a question about frames (frame inspect)."""
    return f"Answer from the frames; say so if they do not show it.\n{question}"


def task(question: Question, duration: float, tools: Sequence[Tool], steps: int) -> str:
    """The opening of the search (Algorithm 1: the query and the action space)."""
    named = ", ".join(tool.name for tool in tools)
    return (
        f"Answer a question about a video of {duration:.0f} s by searching in it, step by step, with the "
        f"tools {named}. Think about what is known and what is missing, then call one tool. Times are in "
        f"seconds. You have at most {steps} steps; call answer as soon as the evidence is enough.\n\n"
        f"{question_text(question)}"
    )


def text_protocol(tools: Sequence[Tool]) -> str:
    """How a model without tool calls calls tools."""
    tool_lines = "\n".join(
        f"- {tool.name}: {tool.description} Arguments: {json.dumps(_arguments(tool))}" for tool in tools
    )
    return (
        f"Tools:\n{tool_lines}\n\nReply with a JSON object only: "
        '{"reason": "what is known and missing", "tool": "NAME", "arguments": {...}}'
    )


def unusable(fault: str) -> str:
    """The message to a model whose reply is not a tool call."""
    return f"This reply cannot be used: {fault}. Call a tool; to end the search, call answer."


def forced(question: Question) -> str:
    """Ask for the answer from the history, after the last step."""
    if question.is_open:
        return f"There are no steps left. Answer now, in a few words.\n\n{question_text(question)}"
    return (
        f"There are no steps left. Answer now.\n\n{question_text(question)}\n"
        "Reply with the letter of the right option only."
    )


def _arguments(tool: Tool) -> dict[str, object]:
    properties = tool.arguments.model_json_schema()["properties"]
    return {name: schema.get("description", schema.get("type", "")) for name, schema in properties.items()}
