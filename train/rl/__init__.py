"""GRPO on rows with videos: rows, prompts, rollouts, episodes of two turns and the trainer."""

from videopro.train.rl.config import VideoGRPOConfig
from videopro.train.rl.data import GRPORow, as_dataset, read_grpo_row, read_grpo_rows
from videopro.train.rl.engine import TrainingEngines, answering_engine, training_engines
from videopro.train.rl.episodes import RefinementTurns
from videopro.train.rl.prompt_encoder import PromptEncoder
from videopro.train.rl.samplers import EngineSampler
from videopro.train.rl.trainer import VideoGRPOTrainer
from videopro.train.rl.vllm_weights import check_vllm

__all__ = [
    "EngineSampler",
    "GRPORow",
    "PromptEncoder",
    "RefinementTurns",
    "TrainingEngines",
    "VideoGRPOConfig",
    "VideoGRPOTrainer",
    "answering_engine",
    "as_dataset",
    "check_vllm",
    "read_grpo_row",
    "read_grpo_rows",
    "training_engines",
]
