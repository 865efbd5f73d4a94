"""Links of pages, as the site needs them."""

from __future__ import annotations

import pytest

from ops.site.links import DOCS, ROOT, converted, files_beside, page_of, shown


@pytest.mark.parametrize(
    ("page", "text", "on_the_site"),
    [
        ("docs/tls.md", "[a](auth.md#tokens) [b](#here)", "[a](auth.md#tokens) [b](#here)"),
        ("docs/tls.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("docs/tls.md", "[a](../examples/ldap_service.py)", "[a](repository/examples/ldap_service.py.md)"),
        ("docs/tls.md", "[a](../README.md#numbers)", "[a](repository/README.md#numbers)"),
        ("docs/decisions/0001-small-parts-in-the-head.md", "[a](../tls.md)", "[a](../tls.md)"),
        ("README.md", "[a](docs/tls.md) [b](LICENSE)", "[a](../tls.md) [b](LICENSE.md)"),
        ("README.md", "![a](docs/pace.png)", "![a](../pace.png)"),
        ("README.md", "`[a](docs/tls.md)`", "`[a](docs/tls.md)`"),
        ("README.md", "```md\n[a](docs/tls.md)\n```\n", "```md\n[a](docs/tls.md)\n```\n"),
        ("README.md", "| `a\\|b` |\n", "| `a|b` |\n"),
        ("README.md", "by `a\\|b`\n", "by `a\\|b`\n"),
    ],
)
def test_a_link_leads_to_the_same_on_the_site(page: str, text: str, on_the_site: str) -> None:
    assert converted(text, ROOT / page) == on_the_site


def test_files_that_pages_beside_link_to_are_there_too() -> None:
    found = files_beside()
    assert {ROOT / "README.md", ROOT / "LICENSE", ROOT / "examples" / "ldap_service.py"} <= found
    assert not [path for path in found if path.is_relative_to(DOCS)]


def test_a_file_is_shown_as_it_is_and_its_words_are_not_searched() -> None:
    page = shown(ROOT / "examples" / "ldap_service.py")
    assert page.startswith("---\nsearch:\n  exclude: true\n---\n\n# examples/ldap_service.py\n\n````python\n")
    assert (ROOT / "examples" / "ldap_service.py").read_text() in page
    assert page_of(ROOT / "examples" / "ldap_service.py") == "repository/examples/ldap_service.py.md"
