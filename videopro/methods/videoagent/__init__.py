"""VideoAgent: a language model that looks for frames until it knows enough to answer."""

from videopro.methods.videoagent.agent import VideoAgentMethod as VideoAgentMethod
from videopro.methods.videoagent.agent import VideoAgentSettings as VideoAgentSettings
from videopro.methods.videoagent.prompts import Prediction as Prediction
from videopro.methods.videoagent.prompts import State as State
from videopro.methods.videoagent.prompts import predict_prompt as predict_prompt
from videopro.methods.videoagent.timeline import Timeline as Timeline
from videopro.methods.videoagent.timeline import without_neighbours as without_neighbours
