"""What goes on a page is escaped and well formed, whatever the evidence says."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from separatrix.evidence import (
    Bound,
    Certificate,
    Decoded,
    InputsCovered,
    Message,
    TaskSpec,
    Transcript,
    Via,
)
from tests.evidence.examples import (
    make_bound,
    make_certificate,
    make_claim,
    make_counterexample,
    make_decoded,
    make_transcript,
)

NASTY = "<script>alert('x')</script>&\"<b>"
NASTY_TASK = TaskSpec(name="index-lookup", params={NASTY: NASTY})


class Tags(HTMLParser):
    """Collects tag names, and checks that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "record",
    [
        make_bound(
            quantity=NASTY,
            unit=NASTY,
            asymptotic=NASTY,
            formula=NASTY,
            assumptions=(NASTY,),
            via=Via(problem=NASTY, reductions=(NASTY,)),
        ),
        make_certificate(
            arithmetic=NASTY,
            checker=NASTY,
            assumptions=(NASTY,),
            verdict="refuted",
            claims=(make_claim(name=NASTY, unit=NASTY, source=NASTY),),
            counterexample=make_counterexample(task=NASTY_TASK, text=NASTY, arithmetic=NASTY),
            task=NASTY_TASK,
            inputs=InputsCovered.of(formula=NASTY, count=3),
        ),
        make_transcript(
            partition=NASTY, output=NASTY, messages=(Message(sender="Alice", name=NASTY, bits=1),)
        ),
        make_decoded(task=NASTY_TASK, arithmetic=NASTY, checker=NASTY),
    ],
    ids=["bound", "certificate", "transcript", "decoded"],
)
def test_html_is_escaped_and_well_formed(record: Bound | Certificate | Transcript | Decoded) -> None:
    html = record._repr_html_()
    tags = Tags()
    tags.feed(html)
    assert tags.seen <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert not tags.open
    assert html.count("&lt;script&gt;") >= 3
