"""The ways to answer: methods by name, how a run of one is prepared, and their options."""

from __future__ import annotations

from videopro.methods.base import Adaptation, Method, MethodContext, answer_each
from videopro.methods.events import EventObserver, error_event, last_event
from videopro.methods.evidence import EvidenceKind, evidence
from videopro.methods.favouring import favouring_answers
from videopro.methods.preparing import PreparedModels, PreparedRun, prepare, prepare_models
from videopro.methods.program.method import AdaptiveMethod
from videopro.methods.program.settings import ANSWERER_HELP, FALLBACK_HELP, FINAL_HELP
from videopro.methods.registry import METHOD_OPTIONS, METHODS, create, method_class, takes
from videopro.methods.requests import Questions, RunRequest
from videopro.methods.tracing import make_trace, other_file, video_ref

__all__ = [
    "ANSWERER_HELP",
    "AdaptiveMethod",
    "Adaptation",
    "EventObserver",
    "EvidenceKind",
    "FALLBACK_HELP",
    "FINAL_HELP",
    "METHODS",
    "METHOD_OPTIONS",
    "Method",
    "MethodContext",
    "PreparedModels",
    "PreparedRun",
    "Questions",
    "RunRequest",
    "answer_each",
    "create",
    "error_event",
    "evidence",
    "favouring_answers",
    "last_event",
    "make_trace",
    "method_class",
    "other_file",
    "prepare",
    "prepare_models",
    "takes",
    "video_ref",
]
