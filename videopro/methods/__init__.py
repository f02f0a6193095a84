"""Methods of answering by name, the preparation of runs, and their options."""

from __future__ import annotations

from videopro.methods.asking import QuestionFailed as QuestionFailed
from videopro.methods.asking import answer_one as answer_one
from videopro.methods.asking import last_events as last_events
from videopro.methods.base import FALLBACK_HELP as FALLBACK_HELP
from videopro.methods.base import Adaptation as Adaptation
from videopro.methods.base import Method as Method
from videopro.methods.base import MethodContext as MethodContext
from videopro.methods.base import Questions as Questions
from videopro.methods.base import RunRequest as RunRequest
from videopro.methods.base import answer_each as answer_each
from videopro.methods.controls import with_controls as with_controls
from videopro.methods.events import EventObserver as EventObserver
from videopro.methods.events import error_event as error_event
from videopro.methods.events import last_event as last_event
from videopro.methods.preparing import PreparedModels as PreparedModels
from videopro.methods.preparing import PreparedRun as PreparedRun
from videopro.methods.preparing import favouring_answers as favouring_answers
from videopro.methods.preparing import named_plugins as named_plugins
from videopro.methods.preparing import plugin_identity as plugin_identity
from videopro.methods.preparing import prepare as prepare
from videopro.methods.preparing import prepare_models as prepare_models
from videopro.methods.program.method import AdaptiveMethod as AdaptiveMethod
from videopro.methods.program.settings import ANSWERER_HELP as ANSWERER_HELP
from videopro.methods.program.settings import FINAL_HELP as FINAL_HELP
from videopro.methods.registry import METHOD_OPTIONS as METHOD_OPTIONS
from videopro.methods.registry import METHODS as METHODS
from videopro.methods.registry import create as create
from videopro.methods.registry import takes as takes
from videopro.methods.tracing import make_trace as make_trace
from videopro.methods.tracing import other_file as other_file
from videopro.methods.tracing import video_ref as video_ref
