"""Lower bounds as values: every bound of the three papers, each from the reduction that proves it.

`bounds_for(task, family)` gives all that bind a family, `bound` the strongest, `message_bounds` what two
parties must send. A number stands only where a constant is proven; its derivation is in the docstring of
its rule.

>>> from separatrix.tasks import task
>>> needed = bound(task("index-lookup", n=1024, alphabet=64), "rnn")
>>> needed.at_least, needed.quantity, needed.theorem, str(needed.via)
(6144, 'state bits', 'S-T3', 'INDEX → index-lookup')
"""

from __future__ import annotations

from separatrix.communication.bounds.asking import (
    RULES,
    artefacts,
    bound,
    bounds_for,
    bounds_held,
    message_bounds,
    no_bound,
    rule_of,
)
from separatrix.communication.bounds.interface import Given, Rule

__all__ = [
    "RULES",
    "Given",
    "Rule",
    "artefacts",
    "bound",
    "bounds_for",
    "bounds_held",
    "message_bounds",
    "no_bound",
    "rule_of",
]
