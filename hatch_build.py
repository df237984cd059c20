"""Writes the README into the package with absolute links: a package index does not have the other files."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The target of a Markdown link, an image or a picture's source, unless it has a scheme or is on the same page.
_RELATIVE = re.compile(r'(\]\(|\b(?:src|srcset)=")(?![a-z]+:|#)([^)"\s]+)')
_PICTURES = (".png", ".svg")


def absolute_links(text: str, source: str) -> str:
    """The text with its relative links pointing into the repository at `source`."""

    def absolute(found: re.Match[str]) -> str:
        view = "raw" if found[2].endswith(_PICTURES) else "blob"
        return f"{found[1]}{source}/{view}/main/{found[2]}"

    return _RELATIVE.sub(absolute, text)


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling for every build, editable installs included."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, metadata["urls"]["Source"]),
        }
