"""The video modules that programs call, and their models."""

# The folder is at the top of the checkout and is imported as videopro.modules: each module has one name.
if __name__ != "videopro.modules":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.modules'")

from videopro.modules.calls import module as module
from videopro.modules.errors import ArgumentError as ArgumentError
from videopro.modules.errors import CallError as CallError
from videopro.modules.errors import ModelError as ModelError
from videopro.modules.errors import ModuleError as ModuleError
from videopro.modules.library import PROGRAM_MODULES as PROGRAM_MODULES
from videopro.modules.library import MadeCall as MadeCall
from videopro.modules.library import ModuleLibrary as ModuleLibrary
from videopro.modules.library import VideoContext as VideoContext
from videopro.modules.library import available_modules as available_modules
from videopro.modules.library import call_key as call_key
from videopro.modules.loading import OPTIONS_FLAG as OPTIONS_FLAG
from videopro.modules.loading import PAPER_HELP as PAPER_HELP
from videopro.modules.loading import ModuleModels as ModuleModels
from videopro.modules.loading import ModuleSettings as ModuleSettings
from videopro.modules.loading import cache_need as cache_need
from videopro.modules.loading import json_flag as json_flag
from videopro.modules.loading import module_needs as module_needs
from videopro.modules.loading import part_needs as part_needs
from videopro.modules.loading import speech_needs as speech_needs
from videopro.modules.models.transcription import SPEECH_HELP as SPEECH_HELP
from videopro.modules.models.transcription import Spoken as Spoken
from videopro.modules.models.transcription import Transcripts as Transcripts
from videopro.modules.models.transcription import check_speech as check_speech
from videopro.modules.models.transcription import resolve_speech as resolve_speech
from videopro.modules.models.transcription import speech_identity as speech_identity
from videopro.modules.models.transcription import stored_transcript_id as stored_transcript_id
from videopro.modules.presets import PAPER as PAPER
from videopro.modules.presets import PAPER_FRAMES as PAPER_FRAMES
from videopro.modules.presets import WHISPER as WHISPER
from videopro.modules.presets import paper_notes as paper_notes
from videopro.modules.reference import DRAWN_NAMES as DRAWN_NAMES
from videopro.modules.reference import api_reference as api_reference
from videopro.modules.reference import full_reference as full_reference
from videopro.modules.reference import modules_of_prompt as modules_of_prompt
from videopro.modules.reference import named_modules as named_modules
from videopro.modules.reference import reference_text as reference_text
from videopro.modules.replaying import NeverMade as NeverMade
from videopro.modules.replaying import ReplayLibrary as ReplayLibrary
from videopro.modules.replaying import emptied as emptied
from videopro.modules.replaying import other_results as other_results
