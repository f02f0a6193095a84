"""Models behind modules: detectors, trackers, OCR and speech recognition."""

from videopro.modules.models.detection import Corners as Corners
from videopro.modules.models.detection import Detector as Detector
from videopro.modules.models.detection import load_detector as load_detector
from videopro.modules.models.ocr import Ocr as Ocr
from videopro.modules.models.ocr import load_ocr as load_ocr
from videopro.modules.models.speech import TRANSCRIBERS as TRANSCRIBERS
from videopro.modules.models.speech import BrokenSound as BrokenSound
from videopro.modules.models.speech import Heard as Heard
from videopro.modules.models.speech import NoSound as NoSound
from videopro.modules.models.speech import SpeechRecognizer as SpeechRecognizer
from videopro.modules.models.speech import SpeechSpec as SpeechSpec
from videopro.modules.models.speech import read_speech as read_speech
from videopro.modules.models.tracking import Tracker as Tracker
from videopro.modules.models.tracking import load_tracker as load_tracker
from videopro.modules.models.transcription import Transcript as Transcript
from videopro.modules.models.transcription import TranscriptBusy as TranscriptBusy
from videopro.modules.models.transcription import read_transcript as read_transcript
from videopro.modules.models.transcription import transcribe_video as transcribe_video
from videopro.modules.models.transcription import transcript_path as transcript_path
