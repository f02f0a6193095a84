"""Code shared by the agents: models in roles, structured replies, budgets, recorded steps, questions in
flight.

An agent is a folder next to this one: its settings, prompts and schemas, and an `AgentRun` that reads like
its paper's algorithm.
"""

from videopro.methods.agents.method import AgentMethod as AgentMethod
from videopro.methods.agents.method import AgentRun as AgentRun
from videopro.methods.agents.method import Equipment as Equipment
from videopro.methods.agents.method import Prepared as Prepared
from videopro.methods.agents.method import Scene as Scene
from videopro.methods.agents.models import AgentModel as AgentModel
from videopro.methods.agents.models import BackboneModel as BackboneModel
from videopro.methods.agents.models import ModelLoader as ModelLoader
from videopro.methods.agents.models import ModelReply as ModelReply
from videopro.methods.agents.models import Tool as Tool
from videopro.methods.agents.models import ToolCall as ToolCall
from videopro.methods.agents.models import ToolsRefused as ToolsRefused
from videopro.methods.agents.models import Turn as Turn
from videopro.methods.agents.models import public_role as public_role
from videopro.methods.agents.models import split_role as split_role
from videopro.methods.agents.session import Numbered as Numbered
from videopro.methods.agents.session import Session as Session
from videopro.methods.agents.session import UnparsedReply as UnparsedReply
from videopro.methods.agents.session import answer_type as answer_type
from videopro.methods.agents.session import number_type as number_type
from videopro.methods.agents.session import numbered_type as numbered_type
from videopro.methods.agents.session import parse_reply as parse_reply
from videopro.methods.agents.session import question_text as question_text
from videopro.methods.agents.session import written_answer as written_answer
from videopro.methods.agents.settings import ROLE_HELP as ROLE_HELP
from videopro.methods.agents.settings import AgentSettings as AgentSettings
from videopro.methods.agents.settings import Budget as Budget
from videopro.methods.agents.settings import spread as spread
