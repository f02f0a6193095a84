"""Backbones around a backbone: metering and batching."""

from videopro.backbones.wrappers.batching import BatchingBackbone
from videopro.backbones.wrappers.metered import Meter, MeteredBackbone, ThreadMeter

__all__ = ["BatchingBackbone", "Meter", "MeteredBackbone", "ThreadMeter"]
