"""Backbones around a backbone: metering, batching, and sharing among threads."""

from videopro.backbones.wrappers.batching import BatchingBackbone
from videopro.backbones.wrappers.metered import Meter, MeteredBackbone, ThreadMeter
from videopro.backbones.wrappers.sharing import share_backbone

__all__ = ["BatchingBackbone", "Meter", "MeteredBackbone", "ThreadMeter", "share_backbone"]
