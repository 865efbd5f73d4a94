"""The site, built as `make docs` builds it: complete, the same each time, like the pages on GitHub, and nothing of it
comes from another host.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt

from ops.site.links import DOCS, ROOT, files_beside, page_of
from tests.browser import Browser, browser, program
from tests.http_server import serving
from tests.waiting import wait_for

pytest.importorskip("mkdocs", reason="`make docs` installs mkdocs")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

PAGES = sorted([*DOCS.rglob("*.md"), *(path for path in files_beside() if path.suffix == ".md")])
LOADED = re.compile(r"""url\(\s*["']?(?P<css>[^"')]+)|@import\s+["'](?P<imported>[^"']+)""")
SHOWN_IN_THE_PAGE = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
STRUCTURE = {
    *("h1", "h2", "h3", "h4", "ul", "ol", "li", "table", "tr", "th", "td", "pre", "code", "a", "img", "strong", "em"),
    *("hr", "blockquote"),
}
OF_THE_THEME = {"button", "nav", "style", "script", "aside", "form"}
VOID = {"img", "hr", "br", "input", "link", "meta"}


def build(directory: Path) -> Path:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return directory


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("built") / "site")


def html_of(site: Path, path: Path) -> Path:
    page = site / Path(page_of(path)).with_suffix(".html")
    return page.with_name("index.html") if path.name == "README.md" else page


class Structure(HTMLParser):
    """The elements and words of a page without those that the theme adds; of code only the words."""

    def __init__(self, *, inside: bool) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = inside
        self._skipped = 0
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self._inside = True
        elif self._skipped or tag in OF_THE_THEME or dict(attrs).get("class") == "headerlink":
            self._skipped += tag not in VOID
        elif self._counts(tag) and (tag != "a" or "href" in dict(attrs)):
            self._in_code = tag == "pre"
            self.found.append(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._inside = False
        elif self._skipped:
            self._skipped -= 1
        else:
            self._in_code = self._in_code and tag != "pre"
            if self._counts(tag) and tag not in VOID:
                self.found.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._inside and not self._skipped:
            self.found.append("".join(data.split()))

    def _counts(self, tag: str) -> bool:
        return self._inside and not self._in_code and tag in STRUCTURE


def structure_of(html: str, *, inside: bool) -> str:
    parser = Structure(inside=inside)
    parser.feed(html)
    return "".join(parser.found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_structure_that_it_has_on_github(site: Path, page: Path) -> None:
    """Python-Markdown has rules of its own for lists, tables and code; GitHub follows CommonMark."""
    on_github = MarkdownIt("commonmark").enable("table").render(page.read_text())
    assert structure_of(html_of(site, page).read_text(), inside=False) == structure_of(on_github, inside=True)


def test_two_builds_are_the_same(site: Path, tmp_path: Path) -> None:
    again = build(tmp_path / "site")
    first, second = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (site, again)
    )
    assert first.keys() == second.keys()
    assert not [path for path, contents in first.items() if second[path] != contents]


class Loads(HTMLParser):
    """The addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(SHOWN_IN_THE_PAGE.get(tag, ""))
        if address:
            self.found.append(address)


def test_pages_and_styles_name_no_other_host(site: Path) -> None:
    loaded = []
    for path in site.rglob("*.html"):
        parser = Loads()
        parser.feed(path.read_text())
        assert parser.found
        loaded += parser.found
    for path in site.rglob("*.css"):
        loaded += [found["css"] or found["imported"] for found in LOADED.finditer(path.read_text())]
    assert not [address for address in loaded if urlsplit(address).netloc]


class Served(SimpleHTTPRequestHandler):
    """The files of the site. The search runs in a worker, which may load only from where it came."""

    def end_headers(self) -> None:
        if self.path.endswith(".js"):
            self.send_header("Content-Security-Policy", "default-src 'self'")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with serving(partial(Served, directory=str(site))) as url:
        yield url


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("no Chromium is installed")
    with browser(tmp_path) as running:
        yield running


def test_a_browser_asks_no_other_host_and_finds_a_setting(chromium: Browser, address: str) -> None:
    page = chromium.open("about:blank", 1280)
    page.call("Network.enable")
    for name in ("decisions/0004-drip-needs-a-bounded-receive-buffer.html", "repository/index.html", "index.html"):
        page.load(f"{address}/{name}")
    page.click(".md-search__input")
    page.call("Input.insertText", text="parking_bytes")
    links = "[...document.querySelectorAll('.md-search-result__link')].map(it => new URL(it.href).pathname)"
    assert "/flow-settings.html" in wait_for(lambda: page.evaluate(links), what="results of the search")
    asked = [event["params"]["request"]["url"] for event in page.seen("Network.requestWillBeSent")]
    assert f"{address}/search/search_index.json" in asked
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {urlsplit(address).netloc}


@pytest.mark.parametrize("name", ["index", "flow-control", "configuration", "first-hour", "metrics"])
def test_a_page_fits_a_phone_and_is_dark_on_a_dark_one(chromium: Browser, address: str, name: str) -> None:
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    for dark in False, True:
        page = chromium.open(f"{address}/{name}.html", 390, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert (max(page.evaluate(brightness)) < 128) == dark
