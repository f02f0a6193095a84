"""Deep Video Discovery on one question: agentic search and answer (Algorithm 1)."""

from __future__ import annotations

import json

from videopro.methods.agents import AgentRun, Conclusion, Prepared, Session, ToolCall, ToolsRefused, Turn
from videopro.methods.dvd import prompts
from videopro.methods.dvd.database import Database
from videopro.methods.dvd.prompts import Action
from videopro.methods.dvd.settings import DvdSettings
from videopro.methods.dvd.tools import GiveAnswer, Toolbox, ToolMistake, offered
from videopro.question import Answer, extract_letter
from videopro.storage import InvalidJson, parse_json

LLM = "llm"


class DvdRun(AgentRun):
    """The observe-reason-act loop."""

    def __init__(self, session: Session, prepared: Prepared, settings: DvdSettings) -> None:
        super().__init__(session, prepared)
        database: Database = prepared.content
        self._settings = settings
        self._tools = offered(settings)
        self._toolbox = Toolbox(session, database, settings)
        opening = prompts.task(session.question, session.video.duration, self._tools, settings.max_tool_steps)
        self._history: list[Turn] = [Turn("user", opening)]
        """H: the query and the action space, then reasoning, action and observation of each step."""
        self._speaks_tools = settings.tool_calls == "auto"
        for fault in database.faults:
            session.note(fault)

    def run(self) -> Conclusion:
        for step in range(self._settings.max_tool_steps):
            reasoning, calls = self._act(step)
            self._history.append(Turn("assistant", reasoning, tuple(calls)))
            for call in calls:
                if (answer := self._given_answer(call)) is not None:
                    return Conclusion(answer)
                self._history.append(Turn("tool", self._observe(call, step), call_id=call.id))
            if not calls:
                self._history.append(Turn("user", "No tool was called. Call one, or answer."))
        self.session.note("no step is left: the answer was forced")
        return self.conclude()

    def conclude(self) -> Conclusion:
        """The forced answer, from the history."""
        question = self.session.question
        prompt = f"{self._as_text()}\n\n{prompts.forced(question)}"
        if question.is_open:
            return Conclusion(Answer(raw=self.session.tell("answer", LLM, prompt)))
        return Conclusion(self.session.choose("answer", LLM, prompt))

    # ---- reason and act ----------------------------------------------------------------------------------

    def _act(self, step: int) -> tuple[str, list[ToolCall]]:
        """The model's reasoning, and the tools that it calls."""
        if self._speaks_tools:
            try:
                reply = self.session.converse("act", LLM, self._history, self._tools, round=step)
                return reply.text, list(reply.calls)
            except ToolsRefused as refused:
                self._speaks_tools = False
                self.session.note(f"text protocol instead of tool calls: {refused}")
        prompt = f"{self._as_text()}\n\n{prompts.text_protocol(self._tools)}"
        action = self.session.ask("act", LLM, prompt, schema=Action, round=step).parsed
        if action is None:
            return self.session.steps[-1].raw, []
        return action.reason, [ToolCall(action.tool, _as_json(action.arguments), str(step))]

    def _observe(self, call: ToolCall, step: int) -> str:
        """What the tool found, or what is wrong with the call."""
        try:
            return self._toolbox.call(call.name, _arguments(call), step)
        except ToolMistake as mistake:
            self.session.tool("mistake", args={"tool": call.name}, result=str(mistake), round=step)
            return f"This call failed: {mistake}"

    def _given_answer(self, call: ToolCall) -> Answer | None:
        """The answer, if the call gives one that its schema accepts."""
        if call.name != "answer":
            return None
        try:
            given = self._toolbox.checked(call.name, _arguments(call))
        except ToolMistake:
            return None
        assert isinstance(given, GiveAnswer)
        question = self.session.question
        letter = None if question.is_open else extract_letter(given.text, question)
        self.session.tool("answer", args={"text": given.text}, result=letter or "", round=-1)
        return Answer(letter, raw=given.text)

    def _as_text(self) -> str:
        """The history as one text, for models without tool calls."""
        parts = []
        for turn in self._history:
            if turn.role == "assistant":
                calls = "; ".join(f"{call.name}({call.arguments})" for call in turn.calls)
                parts.append(f"Thought: {turn.text}" + (f"\nAction: {calls}" if calls else ""))
            elif turn.role == "tool":
                parts.append(f"Observation: {turn.text}")
            else:
                parts.append(turn.text)
        return "\n\n".join(parts)


def _arguments(call: ToolCall) -> object:
    """The arguments of a call. Raises ToolMistake for anything but JSON."""
    try:
        return parse_json(call.arguments or "{}")
    except InvalidJson as error:
        raise ToolMistake(f"{call.name}: the arguments are not valid JSON: {error}") from None


def _as_json(arguments: dict[str, object]) -> str:
    return json.dumps(arguments)
