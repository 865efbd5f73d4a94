"""The documentation: working links, possible policies, and every setting of flow control."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from penstock.settings import Settings
from penstock.settings.sources import known_keys
from router.authority.policy_checks import check
from router.model.policy_keys import FOREIGN, IGNORED, KEYS
from router.model.records import Policy

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]*)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FAMILIES = ("sum-", "deepest-", "ha-", "max-in-memory-")
"""Keys that the documentation names by their prefix."""


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    anchors: set[str] = set()
    for heading in HEADING.findall(page.read_text()):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = sum(
            other == anchor or re.fullmatch(rf"{re.escape(anchor)}-\d+", other) is not None for other in anchors
        )
        anchors.add(f"{anchor}-{count}" if count else anchor)
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in _anchors(linked), target


def test_every_page_is_in_the_index() -> None:
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall((DOCS / "README.md").read_text())}
    assert {page for page in DOCS.rglob("*.md") if page.name != "README.md"} <= linked


def test_every_key_of_policies_is_described() -> None:
    page = (DOCS / "policies.md").read_text()
    for key in (*KEYS, *FOREIGN, *IGNORED):
        family = next((f"`{begin}…`" for begin in FAMILIES if key.startswith(begin)), None)
        assert re.search(rf"`{re.escape(key)}[`:]", page) or (family and family in page), key


def test_every_setting_of_flow_control_is_in_its_table() -> None:
    page = (DOCS / "flow-settings.md").read_text()
    for key in known_keys(Settings):
        if key.startswith(("flow.", "memory")) or (key.startswith("store.") and key != "store.durability"):
            assert f"`{key}`" in page, key


POLICIES = [line.strip() for page in PAGES for line in page.read_text().split("\n") if "  penstock policy set " in line]


@pytest.mark.parametrize("line", sorted(set(POLICIES)))
def test_policies_that_are_shown_can_be(line: str) -> None:
    name, pattern, definition, *options = shlex.split(line)[3:]
    said = dict(pairwise(options))
    vhost = "" if "--node" in options else "/"
    apply_to, priority = said.get("--apply-to", "all"), int(said.get("--priority", 0))
    check(Policy(vhost, "--operator" in options, name, pattern, apply_to, priority, orjson.loads(definition)))


def test_the_tests_of_situations_are_there() -> None:
    named = re.findall(r"`(test_\w+)(?:::(test_\w+))?`", (DOCS / "flow-control.md").read_text())
    assert named
    for module, test in named:
        found = [ROOT / "tests" / folder / f"{module}.py" for folder in ("broker", "clients")]
        assert any(path.exists() and f"def {test}" in path.read_text() for path in found), (module, test)


def test_the_tests_of_promises_are_there() -> None:
    page = (DOCS / "flow-promises.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \|(.*)\| (yes|partly: .+|no: .+) \|$", page, re.MULTILINE)
    assert [int(number) for number, *_ in rows] == [*range(1, 133)]
    for number, _, shown, holds in rows:
        named = re.findall(r"`([\w/]+)::(\w+)`", shown)
        assert named or holds != "yes", number
        for module, test in named:
            folder, _, name = module.rpartition("/")
            path = ROOT / "tests" / folder / f"test_{name}.py"
            assert path.exists() and f"def test_{test}(" in path.read_text(), (number, module, test)
