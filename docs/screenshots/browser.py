"""The system's Chromium, driven by playwright: for the pictures beside this file, and for tests/browser."""

from __future__ import annotations

import contextlib
import shutil

PROGRAMS = "chromium", "chromium-browser", "google-chrome"


@contextlib.contextmanager
def chromium():
    """A browser of playwright's. Where there is none: a LookupError that says what to install."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise LookupError("no Chromium here: install it (Debian and Ubuntu: apt install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise LookupError("this needs playwright: pip install 'gapless[screenshots]'") from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
