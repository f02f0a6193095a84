"""LVAgent: two to four agents with different weights look at a video, answer, and discuss where they
disagree."""

from videopro.methods.lvagent.agent import MOST_AGENTS as MOST_AGENTS
from videopro.methods.lvagent.agent import LvAgentMethod as LvAgentMethod
from videopro.methods.lvagent.agent import check_weights as check_weights
from videopro.methods.lvagent.agent import phase_seconds as phase_seconds
from videopro.methods.lvagent.team import LibraryMember as LibraryMember
from videopro.methods.lvagent.team import TeamFile as TeamFile
from videopro.methods.lvagent.team import agreement as agreement
from videopro.methods.lvagent.team import pseudo_label as pseudo_label
