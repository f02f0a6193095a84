"""Planners against a library of modules that is drawn anew for each row: a plug-in next to pocket, without
pixels.

The scripts of its stories answer every module call, through a channel of errors (`library`), behind the real
executor, traces, prompts and viewer (`asking`). `routes` knows the best program that a library allows; a
small text decoder (`decoder`, `training`) learns to write it. `docs/results/simlib.md` says what was
measured.
"""

from videopro.simlib.asking import Oracle as Oracle
from videopro.simlib.asking import answer as answer
from videopro.simlib.asking import measure as measure
from videopro.simlib.asking import record as record
from videopro.simlib.asking import shortcuts as shortcuts
from videopro.simlib.asking import try_modules as try_modules
from videopro.simlib.decoder import Decoder as Decoder
from videopro.simlib.decoder import DecoderPlanner as DecoderPlanner
from videopro.simlib.library import MEASURED as MEASURED
from videopro.simlib.library import Channel as Channel
from videopro.simlib.library import Library as Library
from videopro.simlib.operations import OPERATIONS as OPERATIONS
from videopro.simlib.reinforcing import Rollout as Rollout
from videopro.simlib.reinforcing import expected_modes as expected_modes
from videopro.simlib.reinforcing import grpo_lesson as grpo_lesson
from videopro.simlib.reinforcing import oracle_modes as oracle_modes
from videopro.simlib.reinforcing import rejection_lesson as rejection_lesson
from videopro.simlib.reinforcing import roll_out as roll_out
from videopro.simlib.rows import TESTS as TESTS
from videopro.simlib.rows import Row as Row
from videopro.simlib.rows import draw_rows as draw_rows
from videopro.simlib.story import KINDS as KINDS
from videopro.simlib.story import Story as Story
from videopro.simlib.story import make_story as make_story
from videopro.simlib.teaching import adaptive_row as adaptive_row
from videopro.simlib.teaching import look as look
from videopro.simlib.teaching import teach as teach
from videopro.simlib.training import ARMS as ARMS
from videopro.simlib.training import Lesson as Lesson
from videopro.simlib.training import train as train
