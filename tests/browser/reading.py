"""Whether a page can be read: on a narrow screen, by keyboard, with weak eyes."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

PHONE, DESK = 390, 1280  # pixels
WCAG = "wcag2a", "wcag2aa", "wcag21a", "wcag21aa"  # the rules of accessibility; the rest is what axe-core advises
_STICKS_OUT = """() => {
  const clipped = each => each !== document.body && (getComputedStyle(each).overflowX !== "visible" || clipped(each.parentElement));
  return [...document.body.querySelectorAll("*")]
    .filter(each => each.getBoundingClientRect().right > innerWidth + 1 && !clipped(each.parentElement))
    .map(each => each.outerHTML.slice(0, 200)).slice(0, 5);
}"""


def barriers(page: Page, *, advice=True) -> str:
    """What axe-core finds on the page, in words; "" if nothing. ``advice=False``: by the rules alone."""
    options = {} if advice else {"runOnly": {"type": "tag", "values": [*WCAG]}}
    found = Axe().run(page, options={"resultTypes": ["violations"], **options})
    return found.generate_report() if found.violations_count else ""


def sticking_out(page: Page) -> list[str]:
    """What makes the page wider than the screen."""
    if page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        return []
    return page.evaluate(_STICKS_OUT)
