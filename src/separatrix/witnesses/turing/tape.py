"""W-4.1: any Turing machine of bounded space by a linear RNN that carries the tape in its state."""

from __future__ import annotations

from collections.abc import Iterator

from separatrix.generation.scripts.turing import FULL, WALL, RunTask, TapeScript, halted_mark
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, build
from separatrix.witnesses.language.rules import Differs, Equals, Rule, Word, bits_of_rules, decide_by_rules
from separatrix.witnesses.turing.past import Past
from separatrix.witnesses.witness import Witness

__all__ = ["rules_on_a_tape", "turing_tape"]


def turing_tape(task: RunTask, choices: Choices) -> Witness:
    """Two recurrent layers; the only state is a shift register of one configuration, s + 3 numbers.

    A configuration is a ring of s cells, a wall between the last and the first, and the state in front of
    the cell that is read, L = s + 2 words. A step changes three words of it at most, a q b becoming a w q′,
    a q′ w or q′ a w, so that each word of the next configuration follows from the four words that stand
    L + 1 to L − 2 before it. As the state moves by a word when the head does, nothing has to be counted.

    The first configuration is the prompt itself: `<s>` is the first state, in front of the first cell, and
    `=` a blank behind the input. Where the text does not reach so far back there are blanks, and the wall
    comes where `<s>` is L − left − 1 words back. A halting state is marked in its configuration and named,
    as the answer, one turn later, when the whole tape has been written out. If the head comes upon the
    wall, the run ends with FULL.

    The state has s + 3 numbers up to the number of different words, so O(s) bits in all: O(log n) where that
    is the machine's space. L words are written for each step.
    """
    script = TapeScript(task)
    program = Program(
        task,
        causal=True,
        gated=True,
        vocabulary=script.vocabulary,
        longest=task.n + 2 + script.limit,
    )
    words = program.words()
    with program.recurrent_layer() as layer:
        kinds = layer.window("configuration", words.kind, length=script.line)
        rules = rules_on_a_tape(script, Past(words, [words.kind, *kinds], []))
        bits = bits_of_rules(layer, rules)
    with program.recurrent_layer() as layer:
        decide_by_rules(program, layer, rules, bits)
    return witness_of(build(program, choices.system), theorem="W-4.1", family="linear-rnn-cot", script=script)


def rules_on_a_tape(script: TapeScript, past: Past) -> list[Rule]:
    """The next word of a configuration from four of the one before: those around its place and one more."""
    machine, line = script.machine, script.line
    before, here, behind, beyond = line, line - 1, line - 2, line - 3
    live = [(word, word) for word in machine.live]
    halted = [(halted_mark(state), state) for state in machine.halting]
    (halted if machine.start in machine.halting else live).append(("<s>", machine.start))
    reads = [*((symbol, symbol) for symbol in machine.alphabet), ("=", machine.blank)]
    rules = []
    for word, state in live:
        rules.append(Rule(past.holding({behind: word, beyond: WALL}), Word(FULL)))
        for seen, symbol in reads:
            rule = machine.transitions[state, symbol]
            after = Word(halted_mark(rule.state) if rule.state in machine.halting else rule.state)
            ahead = past.holding({behind: word, beyond: seen})
            at = past.holding({here: word, behind: seen})
            past_it = past.holding({before: word, here: seen})
            rules.append(Rule(past_it, after if rule.move == "R" else Word(rule.write)))
            if rule.move == "L":
                rules += [Rule(ahead, after), *_copied(script, past, before, at)]
            else:
                rules.append(Rule(at, after if rule.move == "S" else Word(rule.write)))
                rules += _copied(script, past, here, ahead)
    rules += [Rule((past.is_(here, word),), Word(state)) for word, state in halted]
    first_wall = line - 2 - script.room.left
    rules.append(Rule((past.nothing(here), past.is_(first_wall, "<s>")), Word(WALL)))
    no_state = tuple(past.is_not(back, word) for back in (before, behind) for word, _ in live)
    return [*rules, *_copied(script, past, here, (*no_state, past.is_not(first_wall, "<s>")))]


def _copied(script: TapeScript, past: Past, back: int, when: tuple[Equals | Differs, ...]) -> Iterator[Rule]:
    """What stands so far back once more; the end of the input, and what was before it, are blanks."""
    for word in (*script.machine.alphabet, WALL):
        yield Rule((*when, past.is_(back, word)), Word(word))
    for blank in (past.is_(back, "="), past.nothing(back)):
        yield Rule((*when, blank), Word(script.machine.blank))
