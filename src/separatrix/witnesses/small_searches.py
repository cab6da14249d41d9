"""W-5.2: Index, associative recall, c-gram retrieval and counting by linear RNNs that search once.

Two recurrent layers each. The first carries the kinds of the last tokens and some of their numbers in shift
registers, and makes a bit of each condition of the rules; the second has no state and a hidden unit for each
rule. All numbers carried are whole and no larger than the alphabet, n or the number of kinds, and how many
there are depends on nothing but c: O(log n) bits of state.

A search's text is `<s>`, the input and nothing else, so every word of the input has a space before it and one
behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from separatrix.generation.scripts.small_searches import (
    COUNT_LAST,
    COUNT_OPEN,
    COUNT_TIMES,
    COUNT_TO,
    GAP,
    INDEX_OPEN,
    INDEX_TAKE,
    TAKE,
    CountSearch,
    IndexSearch,
    RecallSearch,
    SmallSearch,
    SmallTask,
)
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Linear, Program, build, constant
from separatrix.witnesses.language.rules import (
    Differs,
    Equals,
    Number,
    Rule,
    Word,
    bits_of_rules,
    decide_by_rules,
)
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.witness import Witness

__all__ = [
    "Past",
    "associative_recall_search",
    "c_gram_search",
    "count_rules",
    "counting_search",
    "index_lookup_search",
    "index_rules",
    "recall_rules",
]

_START: Final = "<StartSearch>"
_END: Final = "<EndSearch>"


def index_lookup_search(task: IndexLookup, choices: Choices) -> Witness:
    r"""Index p: one search for `^(?:\S+\s){p}(\S+)`, seven tokens with its result and the answer.

    The count p skips `<s>` and p − 1 symbols, so the group is the p-th. The pattern copies the number of the
    index token, which then stands two tokens back; the answer is the result once more.
    """
    return _witness(task, IndexSearch(task), choices, kinds=1, numbers={"index": 2})


def associative_recall_search(task: AssociativeRecall, choices: Choices) -> Witness:
    r"""One search for `\sq\s(\S+)` with the query q, seven tokens with its result and the answer.

    The first match begins at the first q that a word follows. That the last word is a query does not show in
    it: wherever no search is going on the next word would be `<StartSearch>`, and only behind the last word
    it is asked. In the form of pairs the query is a key, and its first occurrence is the only one that a word
    follows.
    """
    block = "key" if task.form == "pairs" else "symbol"
    return _witness(task, RecallSearch(task), choices, kinds=2, numbers={block: 2})


def c_gram_search(task: CGramRetrieval, choices: Choices) -> Witness:
    r"""One search for `\sq₁\s…\sq_m\s(\S+)` with the m = c − 1 query tokens, 2c + 3 tokens with the answer.

    A match begins at the first place where all of them stand side by side with a word behind them. While the
    pattern is written, `<StartSearch>` stands at most 2m tokens back and tells which query token is next, and
    that one stands at most 2m tokens back too. So 4m + 2 numbers are carried.
    """
    back = 2 * (task.c - 1)
    return _witness(task, RecallSearch(task), choices, kinds=back, numbers={"symbol": back})


def counting_search(task: Counting, choices: Choices) -> Witness:
    r"""Is #v > k: one search for `(?s)^(?:.*?v\b){k+1}.*?(v)\b`, eleven tokens with the answer.

    It matches where v occurs at least k + 2 times. The text ends with the query, which holds v once more than
    the sequence does, so that is k + 1 times in the sequence. The result is v, and then the answer is 1; or
    FAILED, and it is 0.
    """
    return _witness(task, CountSearch(task), choices, kinds=1, numbers={"symbol": 3, "threshold": 4})


@final
@dataclass(frozen=True, eq=False)
class Past:
    """What is known of the last tokens: entry i of a list tells of the token i back, 0 of the last one.

    `kinds` are the ids of words and blocks. `numbers` are, for each block that rules copy from, the numbers
    of its tokens; 0 where another token stands.
    """

    words: Words
    kinds: Sequence[Linear]
    numbers: Mapping[str, Sequence[Linear]]

    def is_(self, name: str, *, back: int = 0) -> Equals:
        """This word, or a number of this block, stands there."""
        return Equals(self.kinds[back], self.words.id(name))

    def other(self, name: str, *, back: int) -> Differs:
        """Anything else stands there."""
        return Differs(self.kinds[back], self.words.id(name))

    def after(self, name: str, write: Word | Number) -> Rule:
        """What follows a word, or a number of a block, wherever it stands."""
        return Rule((self.is_(name),), write)


def index_rules(past: Past) -> list[Rule]:
    """The pattern word by word, and the result once more."""
    return [
        past.after("index", Word(_START)),
        past.after(_START, Word(INDEX_OPEN)),
        past.after(INDEX_OPEN, Number("count", past.numbers["index"][2])),
        past.after("count", Word(INDEX_TAKE)),
        past.after(INDEX_TAKE, Word(_END)),
        _repeated(past, "symbol"),
    ]


def recall_rules(past: Past, *, query: str, result: str, length: int) -> list[Rule]:
    """A gap and a query token, `length` times; then a gap and the group; and the result once more.

    Token i behind `<StartSearch>` is a gap if i is odd. The query's j-th token, at i = 2j, stood
    length − j + 1 tokens before `<StartSearch>`, so length + j tokens before the gap in front of its copy.
    """
    turns = range(1, length + 1)
    return [
        Rule(
            (past.is_(query), past.other(_END, back=1), *(past.other(_START, back=2 * j) for j in turns)),
            Word(_START),
        ),
        past.after(_START, Word(GAP)),
        *(
            Rule(
                (past.is_(GAP), past.is_(_START, back=2 * j - 1)),
                Number(query, past.numbers[query][length + j]),
            )
            for j in turns
        ),
        *(
            Rule((past.is_(query), past.is_(_START, back=2 * j)), Word(GAP if j < length else TAKE))
            for j in turns
        ),
        past.after(TAKE, Word(_END)),
        _repeated(past, result),
    ]


def count_rules(past: Past) -> list[Rule]:
    """The pattern word by word, and then whether anything was found."""
    symbols, thresholds = past.numbers["symbol"], past.numbers["threshold"]
    return [
        past.after("threshold", Word(_START)),
        past.after(_START, Word(COUNT_OPEN)),
        past.after(COUNT_OPEN, Number("symbol", symbols[3])),
        Rule((past.is_("symbol"), past.is_(COUNT_OPEN, back=1)), Word(COUNT_TIMES)),
        past.after(COUNT_TIMES, Number("count", thresholds[4] + 1)),
        past.after("count", Word(COUNT_TO)),
        past.after(COUNT_TO, Number("symbol", symbols[3])),
        Rule((past.is_("symbol"), past.is_(COUNT_TO, back=1)), Word(COUNT_LAST)),
        past.after(COUNT_LAST, Word(_END)),
        Rule((past.is_("symbol"), past.is_(_END, back=1)), Number("count", constant([1]))),
        past.after("FAILED", Number("count", constant([0]))),
    ]


def _repeated(past: Past, block: str) -> Rule:
    """The answer: the word that a search has found."""
    return Rule((past.is_(block), past.is_(_END, back=1)), Number(block, past.words.number(block)))


def _rules(script: SmallSearch, past: Past) -> list[Rule]:
    match script:
        case IndexSearch():
            return index_rules(past)
        case CountSearch():
            return count_rules(past)
        case RecallSearch():
            return recall_rules(past, query=script.query, result=script.result, length=script.asked)
        case _:
            raise AssertionError("every script has its rules")


def _witness(
    task: SmallTask,
    script: SmallSearch,
    choices: Choices,
    *,
    kinds: int,
    numbers: Mapping[str, int],
) -> Witness:
    """Windows over so many kinds and so many numbers of each block, and then the rules."""
    program = Program(
        task,
        causal=True,
        gated=True,
        vocabulary=script.vocabulary,
        longest=1 + task.length + script.limit,
    )
    words = program.words()
    with program.recurrent_layer() as layer:
        past = Past(
            words,
            [words.kind, *layer.window("kinds", words.kind, length=kinds)],
            {
                block: [words.number(block), *layer.window(f"{block}s", words.number(block), length=back)]
                for block, back in numbers.items()
            },
        )
        rules = _rules(script, past)
        bits = bits_of_rules(layer, rules)
    with program.recurrent_layer() as layer:
        decide_by_rules(program, layer, rules, bits)
    return witness_of(
        build(program, choices.system), theorem="W-5.2", family="linear-rnn+retrieval", script=script
    )
