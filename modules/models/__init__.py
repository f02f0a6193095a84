"""Models behind modules: detectors, trackers, OCR and speech recognition."""

from videopro.modules.models.detection import Corners, Detector, load_detector
from videopro.modules.models.ocr import Ocr, load_ocr
from videopro.modules.models.speech import (
    NoSound,
    SpeechRecognizer,
    load_speech,
    transcribe_video,
    transcript_path,
)
from videopro.modules.models.tracking import Tracker, load_tracker

__all__ = [
    "Corners",
    "Detector",
    "NoSound",
    "Ocr",
    "SpeechRecognizer",
    "Tracker",
    "load_detector",
    "load_ocr",
    "load_speech",
    "load_tracker",
    "transcribe_video",
    "transcript_path",
]
