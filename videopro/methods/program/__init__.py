"""Adaptive program reasoning with self-refinement (sections 3.4 and 3.5), running one program, and the
methods made of them."""

from videopro.methods.program.deciding import REASONED as REASONED
from videopro.methods.program.deciding import REASONED_HELP as REASONED_HELP
from videopro.methods.program.deciding import OtherVideos as OtherVideos
from videopro.methods.program.execution import INPUTS as INPUTS
from videopro.methods.program.execution import NO_PROGRAM as NO_PROGRAM
from videopro.methods.program.execution import answer_natively as answer_natively
from videopro.methods.program.execution import answer_status as answer_status
from videopro.methods.program.execution import error_of_look as error_of_look
from videopro.methods.program.execution import execute as execute
from videopro.methods.program.execution import run_parallel as run_parallel
from videopro.methods.program.reasoner import Reasoner as Reasoner
from videopro.methods.program.reasoner import ReasoningSettings as ReasoningSettings
from videopro.methods.program.rounds import Refinement as Refinement
from videopro.methods.program.rounds import build_refinement as build_refinement
from videopro.methods.program.rounds import cost_of_rounds as cost_of_rounds
from videopro.methods.program.rounds import derive_seed as derive_seed
from videopro.methods.program.rounds import native_round as native_round
from videopro.methods.program.rounds import prompt_seed as prompt_seed
from videopro.methods.program.rounds import refinement_kind as refinement_kind
from videopro.methods.program.rounds import refinement_prompt as refinement_prompt
from videopro.methods.program.rounds import round_from_reply as round_from_reply
from videopro.methods.program.settings import paper_backbone as paper_backbone
from videopro.methods.program.settings import program_needs as program_needs
