"""Called by mkdocs when it builds the site (mkdocs.yml): adds the navigation and the files beside docs/."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from ops.site.index import navigation
from ops.site.links import BESIDE, DOCS, ROOT, converted, files_beside, page_of, shown

INDEX = DOCS / "README.md"
ADDED = {"icon.svg": ROOT / "console" / "static" / "icon.svg", "site.css": ROOT / "ops" / "site" / "site.css"}
"""Files of the site's own looks."""


def on_config(config: MkDocsConfig) -> None:
    """Set the navigation to that of the index."""
    config.nav = navigation(converted(INDEX.read_text(), INDEX))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the files that pages link to, and those of the site's looks."""
    for name, source in ADDED.items():
        files.append(File.generated(config, name, abs_src_path=str(source)))
    for path in sorted(files_beside()):
        text = converted(path.read_text(), path) if path.suffix == ".md" else shown(path)
        files.append(File.generated(config, page_of(path), content=text))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page of docs/ with its links converted; those beside were converted when they were added."""
    name = page.file.src_uri
    return markdown if name.startswith(BESIDE) else converted(markdown, DOCS / name)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Leave out the map of the site, which needs the site's address."""
    return "" if template_name == "sitemap.xml" else output_content
