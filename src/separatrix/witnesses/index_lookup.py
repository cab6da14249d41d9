"""S-T1: index lookup by one layer and one head."""

from __future__ import annotations

from separatrix.models.explicit.codes import Binary, Digits
from separatrix.models.explicit.positions import Own
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, address_rivals, build
from separatrix.witnesses.witness import Witness

__all__ = ["index_lookup"]


def index_lookup(task: IndexLookup, choices: Choices) -> Witness:
    """A single causal head looks up the place that the index token asks for.

    A symbol token holds its digits and the address T(j) of its place, the index token p holds T(p), and the
    logit of place j is η⟨T(p), T(j)⟩. With signs T(p) and T(j) that differ in w places the logit is 2ηw below
    that of place p; the index token itself holds no address and has logit 0, η·dim below. So the rivals have
    together at most Σ_w A_w e^(−2ηw) + e^(−η·dim) times the weight of place p, where A_w bounds the number of
    addresses at distance w. The head returns digits that are off by at most that share, and a step between
    ¼ and ¾ makes them exact: η is the least scale at which the rivals have less than ¼ of the weight. In
    fixed point η is such that every rival's exponential is rounded to 0, and the digits are exact at once.

    Width ⌈log|Σ|⌉ + 2·dim; the feed-forward map has two units a digit. Nothing behind the attention needs the
    old coordinates, so there is no residual and they are used again.
    """
    code = choices.any_code(task.n)
    program = Program(task, causal=True)
    symbol = program.token("symbol", block="symbol", code=Digits(count=task.alphabet))
    wanted = program.token("wanted", block="index", code=code)
    address = program.position("address", Own(), code, on=("symbol",))
    with program.layer() as layer:
        found = layer.select(
            "found",
            match=[(wanted, address)],
            value=symbol,
            rivals=address_rivals(code, silent=1),
        )
        digits = layer.step("digits", found, off=0, on=1)
    program.answer_code(2 * digits - 1, code=Binary(count=task.alphabet))
    built = build(program, choices.system)
    return witness_of(built, theorem="S-T1", family="transformer-1")
