"""Tools for agents that are built with any library: one vocabulary, here and over MCP (docs/tools.md).

tools = open_video("video.mp4", models={"model": "Qwen/Qwen3-VL-2B-Instruct"})
tools.schemas()                                  # what a language model reads about them
tools.call("look", times=[12.5])                 # JSON in, JSON out
"""

from videopro.modules.tools.calling import Tell as Tell
from videopro.modules.tools.calling import Tool as Tool
from videopro.modules.tools.calling import tool_of as tool_of
from videopro.modules.tools.images import reply_parts as reply_parts
from videopro.modules.tools.images import reply_text as reply_text
from videopro.modules.tools.models import ToolModels as ToolModels
from videopro.modules.tools.models import load_models as load_models
from videopro.modules.tools.models import tool_settings as tool_settings
from videopro.modules.tools.results import Answer as Answer
from videopro.modules.tools.results import Time as Time
from videopro.modules.tools.toolbox import Budget as Budget
from videopro.modules.tools.toolbox import BudgetError as BudgetError
from videopro.modules.tools.toolbox import VideoTools as VideoTools
from videopro.modules.tools.toolbox import open_video as open_video
from videopro.modules.tools.vocabulary import TOOLS as TOOLS
