"""Index lookup, and associative recall with keys in a fixed order or in one sequence.

A question is how long the input is and what is asked for; then one position holds the answer, and all others
are free. In a sequence the answer stands behind the first occurrence of the query, so its place is part of
the region: before it the query is missing.
"""

from __future__ import annotations

import torch

from separatrix.certificates.questions.interface import Question, Region, Requirements
from separatrix.certificates.questions.listing import Questions, only, pair, require_room
from separatrix.errors import InvalidInput
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.index_lookup import IndexLookup

__all__ = ["of_associative_recall", "of_index_lookup"]


def of_index_lookup(task: IndexLookup) -> Questions:
    """For every length k and every index p: one region for each symbol at p."""
    symbols = task.alphabet
    require_room(task.name, regions=symbols, positions=task.length, options=symbols)
    lengths = _lengths(task)
    answers = [Requirements.of_class(symbol, symbols) for symbol in range(symbols)]
    vocabulary = task.vocabulary

    def make(number: int) -> Question:
        count, wanted = pair(lengths, number)
        index = symbols + wanted
        options = torch.arange(symbols).repeat(count + 1, 1)
        options[count] = index
        free = torch.ones(count + 1, symbols, dtype=torch.bool)
        free[count] = only(symbols, 0)
        regions = []
        for symbol, answer in enumerate(answers):
            allowed = free.clone()
            allowed[wanted] = only(symbols, symbol)
            regions.append(Region(target=vocabulary.word(symbol), allowed=allowed, requirements=answer))
        return Question(
            query=f"{vocabulary.word(index)} behind {count} {_plural('symbol', count)}",
            asked=count,
            options=options,
            regions=tuple(regions),
        )

    return Questions(sum(lengths), sum(lengths) * symbols, make)


def of_associative_recall(task: AssociativeRecall) -> Questions:
    """Keys in a fixed order, or one sequence; keys that only have to differ are refused."""
    if task.form == "sequence":
        return _in_sequences(task)
    if task.order == "any":
        raise InvalidInput(
            "associative-recall is certified with keys in a fixed order, where what stands at one position "
            "leaves the others free, or in sequence form; got pairs with order=any. Try order=fixed, or use "
            "separatrix break, which works for any task."
        )
    return _fixed_order(task)


def _fixed_order(task: AssociativeRecall) -> Questions:
    """For every number of pairs k and every key: one region for each of its labels."""
    labels = task.target_space.size
    require_room(task.name, regions=labels, positions=task.length, options=labels)
    lengths = _lengths(task)
    answers = [Requirements.of_class(label, labels) for label in range(labels)]
    vocabulary = task.vocabulary

    def make(number: int) -> Question:
        count, wanted = pair(lengths, number)
        options = torch.arange(labels).repeat(2 * count + 1, 1)
        options[::2] = labels + torch.tensor([*range(count), wanted]).unsqueeze(1)
        free = torch.ones(2 * count + 1, labels, dtype=torch.bool)
        free[::2] = only(labels, 0)
        regions = []
        for label, answer in enumerate(answers):
            allowed = free.clone()
            allowed[2 * wanted + 1] = only(labels, label)
            regions.append(Region(target=vocabulary.word(label), allowed=allowed, requirements=answer))
        return Question(
            query=f"{vocabulary.word(labels + wanted)} behind {count} {_plural('pair', count)}",
            asked=2 * count,
            options=options,
            regions=tuple(regions),
        )

    return Questions(sum(lengths), sum(lengths) * labels, make)


def _in_sequences(task: AssociativeRecall) -> Questions:
    """For every length k and query: a region for each place where it stands first, and each token behind."""
    symbols = task.target_space.size
    # Nothing but the query can stand before its first occurrence where there is but one token.
    places = task.n - 1 if symbols > 1 else 1
    require_room(task.name, regions=places * symbols, positions=task.length, options=symbols)
    lengths = _lengths(task)
    answers = [Requirements.of_class(symbol, symbols) for symbol in range(symbols)]
    vocabulary = task.vocabulary

    def make(number: int) -> Question:
        count, query = lengths[number // symbols], number % symbols
        free = torch.ones(count + 1, symbols, dtype=torch.bool)
        free[count] = only(symbols, query)
        regions = []
        for first in range(count - 1 if symbols > 1 else 1):
            for symbol, answer in enumerate(answers):
                allowed = free.clone()
                allowed[:first, query] = False
                allowed[first] = only(symbols, query)
                allowed[first + 1] = only(symbols, symbol)
                target = f"{vocabulary.word(symbol)}, at position {first + 2}"
                regions.append(Region(target=target, allowed=allowed, requirements=answer))
        return Question(
            query=f"{vocabulary.word(query)} behind {count} tokens",
            asked=count,
            options=torch.arange(symbols).repeat(count + 1, 1),
            regions=tuple(regions),
        )

    cells = sum(length - 1 for length in lengths) * symbols**2 if symbols > 1 else len(lengths)
    return Questions(len(lengths) * symbols, cells, make)


def _lengths(task: IndexLookup | AssociativeRecall) -> range:
    """The lengths that samples have."""
    shortest = task.n if task.lengths == "full" else min(10, task.n)
    return range(shortest, task.n + 1)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
