"""What the agents share: models in roles, structured replies, budgets, recorded steps, questions in flight.

An agent is a folder beside this one: its settings, prompts and schemas, and an `AgentRun` that reads like its
paper's algorithm.
"""

from videopro.methods.agents.budget import Budget, BudgetLimits, BudgetSpent, spread
from videopro.methods.agents.loading import ModelLoader, public_role, split_role
from videopro.methods.agents.method import AgentMethod, AgentRun, Conclusion, Equipment, Prepared, Scene
from videopro.methods.agents.models import (
    AgentModel,
    BackboneModel,
    ModelReply,
    Tool,
    ToolCall,
    ToolsRefused,
    Turn,
)
from videopro.methods.agents.replies import UnparsedReply, answer_type, number_type, parse_reply
from videopro.methods.agents.session import Reply, Session
from videopro.methods.agents.settings import PRESET_HELP, ROLE_HELP, AgentSettings

__all__ = [
    "PRESET_HELP",
    "ROLE_HELP",
    "AgentMethod",
    "AgentModel",
    "AgentRun",
    "AgentSettings",
    "BackboneModel",
    "Budget",
    "BudgetLimits",
    "BudgetSpent",
    "Conclusion",
    "Equipment",
    "ModelLoader",
    "ModelReply",
    "Prepared",
    "Reply",
    "Scene",
    "Session",
    "Tool",
    "ToolCall",
    "ToolsRefused",
    "Turn",
    "UnparsedReply",
    "answer_type",
    "number_type",
    "parse_reply",
    "public_role",
    "split_role",
    "spread",
]
