"""The modules of a video as tools: JSON in, JSON out, for agents that are built with any library.

    tools = open_video("film.mp4", models={"model": "Qwen/Qwen3-VL-2B-Instruct"})
    tools.schemas()                                  # what a language model is told of them
    tools.call("get_informative_clips", query="a red car")

No planner, run folder or executor is needed. docs/tools.md has an agent of thirty lines.
"""

from videopro.tools.budget import Budget, BudgetError
from videopro.tools.models import ToolModels, load_models
from videopro.tools.objects import ObjectTable
from videopro.tools.opening import open_video
from videopro.tools.replies import reply_parts, reply_text
from videopro.tools.toolbox import VideoTools

__all__ = [
    "Budget",
    "BudgetError",
    "ObjectTable",
    "ToolModels",
    "VideoTools",
    "load_models",
    "open_video",
    "reply_parts",
    "reply_text",
]
