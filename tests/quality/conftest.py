"""A real browser."""

from support.browser import browser, context

__all__ = ["browser", "context"]
