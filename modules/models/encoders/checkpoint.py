"""Where a checkpoint lies: a folder, or what the hub's cache has or can fetch."""

from __future__ import annotations

from pathlib import Path

from videopro.modules.errors import ModelError

_ALWAYS = ("*.json", "*.txt", "*.model")


def checkpoint_folder(source: str) -> Path:
    """The folder of a checkpoint that is a folder already or a name on the hub. `ModelError` if neither.

    Of the hub's files one form of the weights is fetched: safetensors, or PyTorch's where there are none.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(source, allow_patterns=[*_ALWAYS, "*.safetensors"]))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(source, allow_patterns=[*_ALWAYS, "pytorch_model*.bin"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().split("\n")[0][:300]
        raise ModelError(
            f"{source!r} is neither a folder nor a checkpoint that can be fetched ({reason}); give the "
            "folder of a checkpoint, or the name of one on the hub"
        ) from error
    return folder
