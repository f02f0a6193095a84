"""Rewards of GRPO: running a reply's program and scoring the outcome."""

from videopro.train.rewards.functions import ProgramRewards as ProgramRewards
from videopro.train.rewards.rows import EVALUATION as EVALUATION
from videopro.train.rewards.rows import POLICY_VERSION as POLICY_VERSION
from videopro.train.rewards.rows import ROW as ROW
from videopro.train.rewards.rows import TURNS as TURNS
from videopro.train.rewards.rows import RewardRow as RewardRow
from videopro.train.rewards.rows import read_question as read_question
from videopro.train.rewards.rows import read_row as read_row
from videopro.train.rewards.runs import TurnOutcome as TurnOutcome
from videopro.train.rewards.scoring import ACCURACIES as ACCURACIES
from videopro.train.rewards.scoring import ANSWER as ANSWER
from videopro.train.rewards.scoring import EQUATION as EQUATION
from videopro.train.rewards.scoring import FORMS as FORMS
from videopro.train.rewards.scoring import WEIGHTS as WEIGHTS
from videopro.train.rewards.scoring import Rewards as Rewards
from videopro.train.rewards.scoring import is_right as is_right
from videopro.train.rewards.scoring import score as score
