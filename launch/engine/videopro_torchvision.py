"""Lets torchvision's Python part be imported beside a CPU build of torch.

`launch/live.sh` puts this file into the engine's environment. The registry's torchvision is built for CUDA,
so its kernels do not load there, and its import fails at operators that they would have defined. vLLM needs
none of them: their signatures are enough. They are defined when torchvision is first imported, so that Python
itself starts as fast as before.
"""

import importlib.abc
import sys

_SIGNATURES = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class _Definer(importlib.abc.MetaPathFinder):
    """Finds nothing; defines the operators at the first import of torchvision."""

    library = None

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            # Kept: torch forgets the operators of a library that is garbage.
            _Definer.library = torch.library.Library("torchvision", "DEF")
            for signature in _SIGNATURES:
                _Definer.library.define(signature)


sys.meta_path.insert(0, _Definer())
