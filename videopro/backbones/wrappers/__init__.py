"""Backbones around a backbone: metering, batching, and sharing among threads."""

from videopro.backbones.wrappers.batching import BatchingBackbone as BatchingBackbone
from videopro.backbones.wrappers.batching import share_backbone as share_backbone
from videopro.backbones.wrappers.budget import QuestionBudget as QuestionBudget
from videopro.backbones.wrappers.wrapper import Meter as Meter
from videopro.backbones.wrappers.wrapper import MeteredBackbone as MeteredBackbone
from videopro.backbones.wrappers.wrapper import ThreadMeter as ThreadMeter
