"""Backbones around a backbone: metering, batching, and sharing among threads."""

from videopro.backbones.wrappers.batching import BatchingBackbone, share_backbone
from videopro.backbones.wrappers.wrapper import Meter, MeteredBackbone, ThreadMeter

__all__ = ["BatchingBackbone", "Meter", "MeteredBackbone", "ThreadMeter", "share_backbone"]
