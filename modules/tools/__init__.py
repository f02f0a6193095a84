"""The modules of a video as tools: JSON in, JSON out, for agents that are built with any library.

    tools = open_video("film.mp4", models={"model": "Qwen/Qwen3-VL-2B-Instruct"})
    tools.schemas()                                  # what a language model is told of them
    tools.call("get_informative_clips", query="a red car")

No planner, run folder or executor is needed. docs/tools.md has an agent of thirty lines.
"""

from videopro.modules.tools.models import ToolModels as ToolModels
from videopro.modules.tools.models import load_models as load_models
from videopro.modules.tools.objects import ObjectTable as ObjectTable
from videopro.modules.tools.pictures import reply_parts as reply_parts
from videopro.modules.tools.pictures import reply_text as reply_text
from videopro.modules.tools.toolbox import Budget as Budget
from videopro.modules.tools.toolbox import BudgetError as BudgetError
from videopro.modules.tools.toolbox import VideoTools as VideoTools
from videopro.modules.tools.toolbox import open_video as open_video
