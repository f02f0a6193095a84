"""Headless Chromium, for tests of pages.

Needs `chromium` on the PATH (Debian's package of that name; `launch/test.sh all` installs it where it can)
and playwright, which drives it; without them the tests are skipped.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or importlib.util.find_spec("playwright") is None,
        reason="needs chromium on the PATH (apt-get install chromium) and playwright "
        "(pip install playwright)",
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For the conftest of a folder with tests of pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox does not run as root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


Open = Callable[..., Any]
"""Opens a page of a site: `open_page(hash, folder=...)`."""
