"""Deep Video Discovery on one question: agentic search and answer (Algorithm 1)."""

from __future__ import annotations

import json
from dataclasses import replace

from videopro.cli import cache_root
from videopro.methods.agents import (
    AgentMethod,
    AgentRun,
    Equipment,
    Prepared,
    Scene,
    Session,
    ToolCall,
    ToolsRefused,
    Turn,
)
from videopro.methods.dvd import prompts
from videopro.methods.dvd.database import CAPTIONER, Database, DatabaseBuilder
from videopro.methods.dvd.settings import DvdSettings
from videopro.methods.dvd.tools import GiveAnswer, Toolbox, ToolMistake, offered, one_call, sendable
from videopro.modules import ModuleSettings
from videopro.question import Answer, extract_letter
from videopro.traces import FORCED

LLM = "llm"
_CLOSEST_FIRST = ("frame_inspect", "clip_search", "global_browse")
"""Tools by how closely they look."""


class DvdRun(AgentRun):
    """The observe-reason-act loop."""

    settings: DvdSettings

    def __init__(self, session: Session, prepared: Prepared) -> None:
        super().__init__(session)
        database: Database = prepared.content
        settings, duration = self.settings, session.video.duration
        self._tools = offered(settings)
        self._toolbox = Toolbox(session, database, settings)
        opening = prompts.task(session.question, duration, self._tools, settings.max_tool_steps)
        self._history: list[Turn] = [Turn("user", opening)]
        """H: the query and the action space, then reasoning, action and observation of each step."""
        # Asked for until the model refuses: no list says which servers and models offer tool calls.
        self._speaks_tools = True
        for note in database.notes:
            session.note(note)

    def run(self) -> Answer:
        for _ in self.session.rounds(self.settings.max_tool_steps):
            for call in self._act():
                try:
                    arguments = self._toolbox.read(call)
                    if isinstance(arguments, GiveAnswer):
                        return self._answered(arguments)
                    observation = self._toolbox.use(arguments)
                except ToolMistake as mistake:
                    observation = self._toolbox.failed(call, mistake)
                self._history.append(Turn("tool", observation, call_id=call.id))
        self.session.note(f"no step is left: {FORCED}")
        return self.conclude()

    def conclude(self) -> Answer:
        """The forced answer, from the history."""
        # It belongs to no round of the search.
        self.session.round = 0
        prompt = f"{self._as_text()}\n\n{prompts.forced(self.session.question)}"
        return self.session.answer("answer", LLM, prompt=prompt)

    def cites(self, answer: Answer) -> tuple[int, ...]:
        """The inspections; without any, the clips that searches found; without these, what was browsed."""
        found = {i: step.kind for i, step in enumerate(self.session.steps) if step.frames or step.segments}
        closest = next((kind for kind in _CLOSEST_FIRST if kind in found.values()), None)
        return tuple(i for i, kind in found.items() if kind == closest)

    def _answered(self, call: GiveAnswer) -> Answer:
        question = self.session.question
        letter = None if question.is_open else extract_letter(call.text, question)
        result = call.text if question.is_open else letter or "no option"
        self.session.tool("answer", args={"text": call.text}, result=result)
        return Answer(letter, raw=call.text)

    # ---- reason and act ----------------------------------------------------------------------------------

    def _act(self) -> list[ToolCall]:
        """The calls of the model's next reply, which joins the history."""
        if self._speaks_tools:
            try:
                return self._act_by_tools()
            except ToolsRefused:
                self._speaks_tools = False
                self.session.note("the language model offers no tool calls: it wrote them as text")
        return self._act_by_text()

    def _act_by_tools(self) -> list[ToolCall]:
        reply = self.session.converse("act", LLM, self._history, self._tools)
        # Some servers give no ids, and the observations refer to them.
        calls = [
            replace(call, id=call.id or f"call_{self.session.round}_{number}")
            for number, call in enumerate(reply.calls)
        ]
        self._history.append(Turn("assistant", reply.text, tuple(map(sendable, calls))))
        if not calls:
            self._history.append(Turn("user", prompts.NO_CALL))
        return calls

    def _act_by_text(self) -> list[ToolCall]:
        prompt = f"{self._as_text()}\n\n{prompts.text_protocol(self._tools)}"
        reply = self.session.ask("act", LLM, prompt, schema=one_call(self._tools))
        if reply is None:
            asked = self.session.steps[-1]
            # As with tool calls, the model sees its own words before the fault in them.
            self._history.append(Turn("assistant", asked.raw))
            self._history.append(Turn("user", prompts.unusable(asked.faults[-1])))
            return []
        written = reply.root
        arguments = json.dumps(written.arguments.model_dump(mode="json", exclude_none=True))
        call = ToolCall(written.tool, arguments, f"call_{self.session.round}")
        self._history.append(Turn("assistant", written.reason, (call,)))
        return [call]

    def _as_text(self) -> str:
        """The history as one text, for models without tool calls and for the forced answer."""
        parts = []
        for turn in self._history:
            if turn.role == "assistant":
                calls = "; ".join(f"{call.name}({call.arguments})" for call in turn.calls)
                thought = f"Thought: {turn.text}" if turn.text else ""
                parts += [part for part in (thought, f"Action: {calls}" if calls else "") if part]
            elif turn.role == "tool":
                parts.append(f"Observation: {turn.text}")
            else:
                parts.append(turn.text)
        return "\n\n".join(parts)


PIXELS_720P = 1280 * 720


class DvdMethod(AgentMethod):
    """Deep Video Discovery: a database of the video, and an agent that searches in it with tools."""

    name = "dvd"
    about = "Captions the whole video, then searches the captions. Slow, but only the first time."
    Settings = DvdSettings
    settings: DvdSettings
    answers_open_questions = True

    def __init__(self, settings: DvdSettings) -> None:
        super().__init__(settings)
        self.pixels = PIXELS_720P if settings.resolution == "720p" else None

    def equipment(self) -> Equipment:
        settings = self.settings
        roles = {"llm": settings.llm, CAPTIONER: settings.captioner, "vqa": settings.vqa}
        return Equipment(roles, seeing="vqa", encoders={"text_encoder": settings.text_encoder})

    def prepare(self, scene: Scene) -> Prepared:
        encoders = self.module_models(scene, ModuleSettings(text_encoder=self.settings.text_encoder))
        builder = DatabaseBuilder(
            scene.context.video,
            scene.models[CAPTIONER],
            self.settings,
            scene.subtitles,
            cache_root() / "databases",
            encoders.text_encoder(),
            scene.context.seed,
        )
        database = builder.build()
        return Prepared(database, (database.preparation,))

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        return DvdRun(session, prepared)
