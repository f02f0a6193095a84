"""VideoAgent: a language model that looks for frames until it knows enough to answer."""

from videopro.methods.videoagent.agent import VideoAgentMethod
from videopro.methods.videoagent.prompts import Prediction, State, descriptions_of, prediction_of
from videopro.methods.videoagent.prompts import predict as predict_prompt
from videopro.methods.videoagent.prompts import reflect as reflect_prompt
from videopro.methods.videoagent.prompts import search as search_prompt
from videopro.methods.videoagent.settings import VideoAgentSettings
from videopro.methods.videoagent.timeline import Timeline, VideoSegment, without_neighbours

__all__ = [
    "Prediction",
    "State",
    "Timeline",
    "VideoAgentMethod",
    "VideoAgentSettings",
    "VideoSegment",
    "descriptions_of",
    "predict_prompt",
    "prediction_of",
    "reflect_prompt",
    "search_prompt",
    "without_neighbours",
]
