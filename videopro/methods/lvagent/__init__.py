"""LVAgent: two to four agents with different weights look at a video, answer, and discuss where they
disagree."""

from videopro.methods.lvagent import prompts
from videopro.methods.lvagent.method import LvAgentMethod
from videopro.methods.lvagent.team import TeamFile

__all__ = ["LvAgentMethod", "TeamFile", "prompts"]
