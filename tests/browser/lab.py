"""A notebook in JupyterLab, used by keys and menus."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect


def choose(page: Page, menu: str, entry: str) -> None:
    """Choose an entry of the menu bar."""
    page.get_by_role("menuitem", name=menu, exact=True).click()
    page.get_by_role("menuitem", name=entry, exact=True).click()


class Notebook:
    """The notebook on top."""

    def __init__(self, page: Page, title: str):
        """Its first heading is ``title``."""
        self.page = page
        self.panel = page.locator(".jp-NotebookPanel:visible")
        expect(self.panel.get_by_role("heading", name=title)).to_be_visible()
        expect(page.locator(".jp-NotebookPanel:visible .jp-Notebook-ExecutionIndicator[data-status='idle']")).to_be_visible()

    def cell(self, text: str) -> Locator:
        """The only code cell in whose source this stands."""
        return self.panel.locator(".jp-CodeCell", has=self.page.locator(".cm-content", has_text=text))

    def runs(self, cell: Locator, start) -> Locator:
        """The cell's output, once ``start()`` has made it run."""
        prompt = cell.locator(".jp-InputArea-prompt")
        before = prompt.text_content()
        start()
        expect(prompt).not_to_have_text(before)
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"))
        return cell.locator(".jp-OutputArea")

    def run(self, text: str) -> Locator:
        """Run the cell in whose source this stands, by Shift-Enter; its output."""
        cell = self._edit(text)
        return self.runs(cell, lambda: self.page.keyboard.press("Shift+Enter"))

    def write(self, text: str, source: str) -> None:
        """Type this over the cell in whose source ``text`` stands. The editor indents what follows a colon, and what follows that."""
        self._edit(text)
        self.page.keyboard.press("Control+a")
        for number, line in enumerate(source.splitlines()):
            if number:
                self.page.keyboard.press("Enter")
            self.page.keyboard.type(line.strip())

    def uncomment(self, text: str) -> None:
        """Take the first # away in the cell in whose source this stands."""
        self._edit(text)
        self.page.keyboard.press("Control+Home")
        self.page.keyboard.press("Delete")
        self.page.keyboard.press("Delete")

    def save(self) -> None:
        """Save it, by Ctrl-S."""
        self.page.keyboard.press("Control+s")
        expect(self.page.locator(".lm-TabBar-tab.lm-mod-current.jp-mod-dirty")).to_have_count(0)

    def _edit(self, text: str) -> Locator:
        cell = self.cell(text)
        cell.locator(".cm-content").click()
        return cell
