"""Finding a checkpoint: a local directory, or a download from the hub."""

from __future__ import annotations

from pathlib import Path

from videopro.modules.errors import ModelError

_ALWAYS = ("*.json", "*.txt", "*.model")


def checkpoint_folder(source: str) -> Path:
    """The local directory of a checkpoint. `source`: a directory or a hub name; ModelError if it is neither.

    Only one format of the weights is downloaded: safetensors if there are any, else PyTorch's.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        # Repositories hold the same weights in up to four formats, of gigabytes each.
        folder = Path(snapshot_download(source, allow_patterns=[*_ALWAYS, "*.safetensors"]))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(source, allow_patterns=[*_ALWAYS, "pytorch_model*.bin"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().split("\n")[0][:300]
        raise ModelError(
            f"{source!r} is neither a directory nor a checkpoint that can be downloaded ({reason}); give "
            "the directory of a checkpoint, or its name on the hub"
        ) from error
    return folder
