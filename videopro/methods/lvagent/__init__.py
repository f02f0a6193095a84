"""LVAgent: two to four agents with different weights look at a video, answer, and discuss where they
disagree."""

from videopro.methods.lvagent import prompts
from videopro.methods.lvagent.agent import Scenery
from videopro.methods.lvagent.method import LvAgentMethod, check_weights
from videopro.methods.lvagent.phases import PHASES, phase_seconds
from videopro.methods.lvagent.selection import Agreement, agreement, pseudo_label
from videopro.methods.lvagent.settings import MOST_AGENTS, check_agents
from videopro.methods.lvagent.team import LibraryMember, TeamCost, TeamFile

__all__ = [
    "MOST_AGENTS",
    "PHASES",
    "Agreement",
    "LibraryMember",
    "LvAgentMethod",
    "Scenery",
    "TeamCost",
    "TeamFile",
    "agreement",
    "check_agents",
    "check_weights",
    "phase_seconds",
    "prompts",
    "pseudo_label",
]
