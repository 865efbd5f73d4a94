"""The documentation as a site: its navigation and its links, for mkdocs."""
