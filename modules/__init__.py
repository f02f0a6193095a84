"""The video modules that programs call, and what stands behind them."""

# The folder is at the top of the checkout and is imported as videopro.modules: each module has one name.
if __name__ != "videopro.modules":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.modules'")

from videopro.modules.errors import ModelError
from videopro.modules.library import ModuleLibrary, VideoContext, available_modules, module
from videopro.modules.loading import (
    OPTIONS_FLAG,
    ModuleModels,
    ModuleSettings,
    cache_root,
    is_pocket,
    json_flag,
)
from videopro.modules.reference import api_reference

__all__ = [
    "OPTIONS_FLAG",
    "ModelError",
    "ModuleLibrary",
    "ModuleModels",
    "ModuleSettings",
    "VideoContext",
    "api_reference",
    "available_modules",
    "cache_root",
    "is_pocket",
    "json_flag",
    "module",
]
