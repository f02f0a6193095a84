"""The video modules that programs call, and what stands behind them."""

from videopro.modules.pocket_scope import check_scope, is_of_pocket, is_pocket_video

# The folder is at the top of the checkout and is imported as videopro.modules: each module has one name.
if __name__ != "videopro.modules":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.modules'")

from videopro.modules.alternatives import other_results
from videopro.modules.errors import ArgumentError, CallError, ModelError, ModuleError
from videopro.modules.library import (
    MadeCall,
    ModuleLibrary,
    VideoContext,
    available_modules,
    call_key,
    module,
)
from videopro.modules.loading import (
    OPTIONS_FLAG,
    PAPER_HELP,
    ModuleModels,
    ModuleSettings,
    expects_pocket,
    is_pocket,
    json_flag,
)
from videopro.modules.needs import cache_need, module_needs, part_needs, speech_needs
from videopro.modules.presets import PAPER, PAPER_FRAMES, WHISPER, paper_notes
from videopro.modules.reference import (
    api_reference,
    full_reference,
    modules_of_prompt,
    named_modules,
    reference_text,
)
from videopro.modules.replaying import NeverMade, ReplayLibrary
from videopro.modules.transcripts import (
    SPEECH_HELP,
    Spoken,
    Transcripts,
    check_speech,
    resolve_speech,
    speech_identity,
    stored_transcript_id,
)

__all__ = [
    "ArgumentError",
    "CallError",
    "MadeCall",
    "ModelError",
    "ModuleError",
    "ModuleLibrary",
    "ModuleModels",
    "ModuleSettings",
    "NeverMade",
    "OPTIONS_FLAG",
    "PAPER",
    "PAPER_FRAMES",
    "PAPER_HELP",
    "ReplayLibrary",
    "SPEECH_HELP",
    "Spoken",
    "Transcripts",
    "VideoContext",
    "WHISPER",
    "api_reference",
    "available_modules",
    "cache_need",
    "call_key",
    "check_scope",
    "check_speech",
    "expects_pocket",
    "full_reference",
    "is_of_pocket",
    "is_pocket",
    "is_pocket_video",
    "json_flag",
    "module",
    "module_needs",
    "other_results",
    "modules_of_prompt",
    "named_modules",
    "paper_notes",
    "part_needs",
    "reference_text",
    "resolve_speech",
    "speech_identity",
    "speech_needs",
    "stored_transcript_id",
]
