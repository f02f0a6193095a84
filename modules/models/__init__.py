"""Models behind modules: detectors, trackers, OCR and speech recognition."""

from videopro.modules.models.detection import Corners, Detector, load_detector
from videopro.modules.models.ocr import Ocr, load_ocr
from videopro.modules.models.sound import BrokenSound, NoSound
from videopro.modules.models.speech import Heard, SpeechRecognizer, SpeechSpec, read_speech
from videopro.modules.models.tracking import Tracker, load_tracker
from videopro.modules.models.transcription import (
    Transcript,
    TranscriptBusy,
    read_transcript,
    transcribe_video,
    transcript_path,
)

__all__ = [
    "BrokenSound",
    "Corners",
    "Detector",
    "Heard",
    "NoSound",
    "Ocr",
    "SpeechRecognizer",
    "SpeechSpec",
    "Tracker",
    "Transcript",
    "TranscriptBusy",
    "load_detector",
    "load_ocr",
    "load_tracker",
    "read_speech",
    "read_transcript",
    "transcribe_video",
    "transcript_path",
]
