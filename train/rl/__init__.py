"""GRPO on rows with videos: rows, prompts, rollouts, two-turn episodes and the trainer."""

from videopro.train.rl.config import VideoGRPOConfig as VideoGRPOConfig
from videopro.train.rl.data import GRPORow as GRPORow
from videopro.train.rl.data import as_dataset as as_dataset
from videopro.train.rl.data import read_grpo_row as read_grpo_row
from videopro.train.rl.data import read_grpo_rows as read_grpo_rows
from videopro.train.rl.engine import EngineSampler as EngineSampler
from videopro.train.rl.engine import TrainingEngines as TrainingEngines
from videopro.train.rl.engine import answering_engine as answering_engine
from videopro.train.rl.engine import training_engines as training_engines
from videopro.train.rl.prompt_encoder import PromptEncoder as PromptEncoder
from videopro.train.rl.rollouts import RefinementTurns as RefinementTurns
from videopro.train.rl.trainer import VideoGRPOTrainer as VideoGRPOTrainer
