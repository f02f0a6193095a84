"""LVAgent: two to four agents with different weights look at a video, answer, and discuss where they
disagree."""

from videopro.methods.lvagent.agent import MOST_AGENTS as MOST_AGENTS
from videopro.methods.lvagent.agent import LvAgentMethod as LvAgentMethod
from videopro.methods.lvagent.agent import check_weights as check_weights
from videopro.methods.lvagent.agent import phase_seconds as phase_seconds
from videopro.methods.lvagent.prompts import Opinion as Opinion
from videopro.methods.lvagent.prompts import history_prompt as history_prompt
from videopro.methods.lvagent.prompts import key_prompt as key_prompt
from videopro.methods.lvagent.prompts import reason_prompt as reason_prompt
from videopro.methods.lvagent.prompts import scores_prompt as scores_prompt
from videopro.methods.lvagent.prompts import whole_prompt as whole_prompt
from videopro.methods.lvagent.team import Agreement as Agreement
from videopro.methods.lvagent.team import LibraryMember as LibraryMember
from videopro.methods.lvagent.team import TeamFile as TeamFile
from videopro.methods.lvagent.team import agreement as agreement
from videopro.methods.lvagent.team import pseudo_label as pseudo_label
