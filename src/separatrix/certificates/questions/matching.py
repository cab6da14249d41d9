"""Pair matching: at every position and for every residue there, does its negative stand anywhere?

It stands nowhere: one region, in which every other position may hold anything else. It stands somewhere: a
region for each position that can be the first, with the negative missing before it and all free behind.
"""

from __future__ import annotations

import torch

from separatrix.certificates.questions.interface import Question, Region, Requirements
from separatrix.certificates.questions.listing import Questions, only, require_room
from separatrix.tasks.match2 import Match2

__all__ = ["of_match2"]


def of_match2(task: Match2) -> Questions:
    """For every position and residue; a residue that matches itself leaves nothing open."""
    residues, n = task.residues, task.n
    require_room(task.name, regions=n, positions=n, options=residues)
    unmatched, matched = (Requirements.of_class(answer, 2) for answer in (0, 1))
    options = torch.arange(residues).repeat(n, 1)

    def make(number: int) -> Question:
        asked, residue = divmod(number, residues)
        partner = -residue % residues
        free = torch.ones(n, residues, dtype=torch.bool)
        free[asked] = only(residues, residue)
        if partner == residue and not task.distinct:
            regions = [Region(target="1, with itself", allowed=free, requirements=matched)]
        else:
            without = free.clone()
            without[:, partner] = False
            without[asked] = free[asked]
            regions = [Region(target="0", allowed=without, requirements=unmatched)]
            for first in range(n):
                if first != asked:
                    allowed = torch.cat([without[:first], free[first:]])
                    allowed[first] = only(residues, partner)
                    target = f"1, first with position {first + 1}"
                    regions.append(Region(target=target, allowed=allowed, requirements=matched))
        return Question(
            query=f"{residue} at position {asked + 1}", asked=asked, options=options, regions=tuple(regions)
        )

    themselves = 0 if task.distinct else 2 - residues % 2
    return Questions(n * residues, n * (themselves + (residues - themselves) * n), make)
