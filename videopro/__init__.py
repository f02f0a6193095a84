"""VideoPro: adaptive program reasoning for long video understanding."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from videopro import startup as startup  # First: Ctrl-C has its line from here on.

if TYPE_CHECKING:
    from videopro.api import Run as Run
    from videopro.api import VideoAnswer as VideoAnswer
    from videopro.api import VideoPro as VideoPro
    from videopro.api import read_run as read_run
    from videopro.api import run as run
    from videopro.errors import Cancellation as Cancellation
    from videopro.errors import Cancelled as Cancelled
    from videopro.errors import VideoProError as VideoProError
    from videopro.modules.tools import Budget as Budget
    from videopro.modules.tools import open_video as open_video

__version__ = "0.1.0"

_FROM = {
    "videopro.api": ("VideoPro", "VideoAnswer", "run", "Run", "read_run"),
    "videopro.modules.tools": ("open_video", "Budget"),
    "videopro.errors": ("VideoProError", "Cancellation", "Cancelled"),
}
__all__ = [name for names in _FROM.values() for name in names]


def __getattr__(name: str) -> Any:
    # Imported with their first use: `import videopro` alone takes no libraries.
    for module, names in _FROM.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
