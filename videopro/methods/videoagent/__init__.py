"""VideoAgent: a language model that looks for frames until it knows enough to answer."""

from videopro.methods.videoagent.method import VideoAgentMethod
from videopro.methods.videoagent.prompts import State
from videopro.methods.videoagent.prompts import predict as predict_prompt
from videopro.methods.videoagent.prompts import reflect as reflect_prompt
from videopro.methods.videoagent.prompts import search as search_prompt

__all__ = ["State", "VideoAgentMethod", "predict_prompt", "reflect_prompt", "search_prompt"]
