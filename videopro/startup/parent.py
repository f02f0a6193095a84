"""A helper process ends with the process that started it."""

from __future__ import annotations

import os
import threading
import time


def exit_with_parent(parent: int) -> None:
    """End this process when its parent is gone. A signal of the kernel would not do: it is sent when the
    parent's thread that started this process ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
