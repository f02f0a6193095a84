"""A browser for tests of the page."""

from tests.support.browser import browser

__all__ = ["browser"]
