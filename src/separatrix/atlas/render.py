"""The page as one string: template, style and script inlined, under a policy that forbids everything else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from separatrix.atlas.collect import Content
from separatrix.atlas.drawings import Drawing
from separatrix.atlas.emblem import emblem
from separatrix.atlas.grand_table import MEANINGS, PRECISIONS, short
from separatrix.atlas.svg import slug
from separatrix.theorems import WORKS

__all__ = ["render_page", "typeset"]

_STYLES: Final = ("atlas.css", "grand_table.css", "plots.css")
_SCRIPTS: Final = ("atlas.js", "grand_table.js", "export.js")
_CODE: Final = re.compile(r"`([^`<>]+)`")
_SUBSCRIPT: Final = re.compile(r"\b([A-Za-z])_(?:\{([^{}<>]+)\}|([A-Za-z0-9])(?![A-Za-z0-9_]))")
_SUPERSCRIPT: Final = re.compile(
    r"(?<=[A-Za-z0-9)}|])\^(?:\(([^()<>]+)\)|([-−]?[A-Za-z0-9Ω]+(?:\.[0-9]+|\([0-9]\))?))"
)
"""An exponent is one word, as in N^-K, 2^16 or N^Ω(1), or anything in parentheses."""


def render_page(content: Content, drawings: Mapping[str, Drawing]) -> str:
    """Fill the template. Whatever is no markup of ours is escaped on its way in."""
    style, script = (_assets(*names) for names in (_STYLES, _SCRIPTS))
    return (
        _environment()
        .get_template("atlas.html")
        .render(
            content=content,
            drawings={name: (Markup(entry.svg), entry.caption) for name, entry in drawings.items()},
            task_names={card.name for card in content.tasks},
            derivations=content.needs.anchors,
            needs_plot=Markup(content.needs.plot),
            states=Markup(content.models.plot),
            coverage_grids=[Markup(grid.plot) for grid in content.coverage.grids],
            coverage_broken=Markup(content.coverage.broken.plot if content.coverage.broken else ""),
            emblem=Markup(emblem()),
            style=Markup(style),
            script=Markup(script),
            policy=_policy(style, script),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("separatrix.atlas"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["slug"] = slug
    environment.filters["typeset"] = typeset
    environment.globals["short"] = short
    environment.globals["precisions"] = PRECISIONS
    environment.globals["meanings"] = MEANINGS
    environment.globals["cited"] = {letter for letter, work in WORKS.items() if work.arxiv}
    environment.globals["works"] = {letter: str(work) for letter, work in WORKS.items()}
    return environment


def typeset(text: str) -> Markup:
    """Running text with its mathematics: `x_i`, `2^(N−1)` and words in backquotes get their proper form."""
    html = str(escape(text))
    html = _CODE.sub(r"<code>\1</code>", html)
    html = _SUBSCRIPT.sub(lambda found: f"{found[1]}<sub>{found[2] or found[3]}</sub>", html)
    return Markup(
        _SUPERSCRIPT.sub(lambda found: f"<sup>{(found[1] or found[2]).replace('-', '−')}</sup>", html)
    )


def _assets(*names: str) -> str:
    folder = files("separatrix.atlas").joinpath("templates")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _policy(style: str, script: str) -> str:
    """Nothing may be fetched, sent or framed; only this very style and this very script may act.

    A picture may be one that the page itself has written into an address: so a drawing becomes a PNG.
    """
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
