"""What the models behind the modules need before they are loaded, for `videopro.cli.requirements`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from videopro.cli import Need, cache_root, folder_problem, is_hub_name, is_installed
from videopro.modules.loading import OPTIONS_FLAG, ModuleSettings
from videopro.modules.models.encoders import CHECKPOINTS
from videopro.modules.models.transcription import resolve_speech

_PART_TITLES = {
    "encoder": "clip encoder",
    "text_encoder": "text encoder",
    "ocr": "OCR",
    "detector": "detector",
    "tracker": "tracker",
    "speech": "speech recognition",
}
_FOLDERS = {
    "encoder": "languagebind:FOLDER",
    "text_encoder": "FOLDER",
    "ocr": "easyocr:en@FOLDER",
    "detector": "grounding-dino:FOLDER",
    "tracker": "sam3:FOLDER",
    "speech": "whisper:FOLDER",
}
"""How a setting names a part that is in a folder."""
_EASYOCR_PATIENCE = 5.0


def module_needs(
    settings: ModuleSettings,
    *,
    pocket: bool | None,
    flag: str = OPTIONS_FLAG,
    parts: Collection[str] = tuple(_PART_TITLES),
) -> list[Need]:
    """What the parts of the settings need, and the cache. `pocket`: the backbone is the pocket model; None:
    it is not known, and only parts that are named are looked at. `flag`: how the command at hand leaves out
    a part, as in `ModuleModels`. `parts`: those that are used."""
    named = settings.resolved(bool(pocket)) | {"speech": resolve_speech(settings.speech)}
    names = {part: name for part, name in named.items() if part in parts}
    if pocket is None:
        names = {part: name for part, name in names.items() if getattr(settings, part) != "auto"}
    return [*part_needs(names, flag), cache_need()]


def speech_needs(speech: str, flag: str = OPTIONS_FLAG) -> list[Need]:
    """What a method's own transcripts need; nothing without them."""
    name = resolve_speech(speech)
    return [] if name == "none" else [*part_needs({"speech": name}, flag), cache_need()]


def part_needs(names: Mapping[str, str], flag: str = OPTIONS_FLAG) -> list[Need]:
    """What models need that are named by the settings of `ModuleSettings`."""
    return [_part_need(part, name, flag) for part, name in names.items() if name not in ("none", "auto")]


def _part_need(part: str, name: str, flag: str) -> Need:
    without = flag.format(part=part, option=part.replace("_", "-"))
    otherwise = f"from a folder: {without.replace('none', _FOLDERS[part])}"
    if "none" in without:
        otherwise += f"; without it: {without}"
    kind, _, source = name.partition(":")
    subject = f"{_PART_TITLES[part]} {name}"
    if part == "encoder":
        # No ASP-CLIP is on the hub: its name is a folder.
        source = "" if kind == "asp-clip" else source or CHECKPOINTS.get(kind, "")
        extra = ("encoders", "timm") if kind == "pe_video" else ("", "")
    elif part == "text_encoder":
        source, extra = name, ("encoders", "sentence_transformers")
    elif part == "ocr" and kind == "easyocr":
        folder = source.partition("@")[2]
        problem = "" if folder or not is_installed("easyocr") else _easyocr_problem(source)
        return Need(subject, extra="easyocr", package="easyocr", problem=problem, otherwise=otherwise)
    elif part == "speech":
        source, extra = source.partition("@")[0], ("", "")
    else:
        extra = ("", "")
    return Need(
        subject,
        hub=source if is_hub_name(source) else "",
        extra=extra[0],
        package=extra[1],
        otherwise=otherwise,
    )


def _easyocr_problem(languages: str) -> str:
    """Why EasyOCR's weights cannot be had; "" if they are here, can be downloaded, or are of languages whose
    files only EasyOCR knows."""
    from easyocr import config

    if languages.strip() not in ("", "en"):
        return ""
    folder = Path(config.MODULE_PATH) / "model"
    for model in (config.detection_models["craft"], config.recognition_models["gen2"]["english_g2"]):
        if not (folder / model["filename"]).is_file() and (reason := _unreachable(str(model["url"]))):
            return f"{model['filename']} is not on this machine, and {reason}; put it into {folder}"
    return ""


def _unreachable(url: str) -> str:
    """Why nothing can be downloaded from there; "" if it can."""
    # As EasyOCR downloads.
    import urllib.request

    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_EASYOCR_PATIENCE):
            return ""
    except OSError as error:
        host = url.split("/")[2]
        return f"{host} does not give it ({getattr(error, 'reason', error)})"


def cache_need(root: Path | None = None) -> Need:
    """The folder of indexes and transcripts; None: the usual one."""
    problem = folder_problem(root or cache_root())
    return Need("cache", problem=problem and f"{problem}; set VIDEOPRO_CACHE to another folder")
