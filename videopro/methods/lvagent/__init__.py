"""LVAgent: two to four agents with different weights look at a video, answer, and discuss where they
disagree."""

from videopro.methods.lvagent.agent import PHASES, LvAgentMethod, Scenery, check_weights, phase_seconds
from videopro.methods.lvagent.prompts import Opinion
from videopro.methods.lvagent.prompts import answer as answer_prompt
from videopro.methods.lvagent.prompts import history as history_prompt
from videopro.methods.lvagent.prompts import key_information as key_prompt
from videopro.methods.lvagent.prompts import reason as reason_prompt
from videopro.methods.lvagent.prompts import scores as scores_prompt
from videopro.methods.lvagent.prompts import whole_video as whole_prompt
from videopro.methods.lvagent.settings import MOST_AGENTS, check_agents
from videopro.methods.lvagent.team import (
    Agreement,
    LibraryMember,
    TeamCost,
    TeamFile,
    agreement,
    pseudo_label,
)

__all__ = [
    "MOST_AGENTS",
    "PHASES",
    "Agreement",
    "LibraryMember",
    "LvAgentMethod",
    "Opinion",
    "Scenery",
    "TeamCost",
    "TeamFile",
    "agreement",
    "answer_prompt",
    "check_agents",
    "check_weights",
    "history_prompt",
    "key_prompt",
    "phase_seconds",
    "pseudo_label",
    "reason_prompt",
    "scores_prompt",
    "whole_prompt",
]
