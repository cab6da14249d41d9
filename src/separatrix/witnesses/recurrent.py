"""Recurrent witnesses: UP-RNN, the input stored in bits, and S-E, bounded Dyck by a small stack."""

from __future__ import annotations

from fractions import Fraction

from separatrix.errors import InvalidInput
from separatrix.evidence import Claim, Relation
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_tokens import Activation, digits_for
from separatrix.precision import NumberSystem, name_of
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.interface import TokenTask
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.dyck_rnn import dyck_rnn_model
from separatrix.witnesses.stored_input import stored_input_model
from separatrix.witnesses.witness import Witness

__all__ = ["dyck", "dyck_sigmoid", "stored_input"]


def stored_input(task: TokenTask, choices: Choices) -> Witness:
    """UP-RNN: every symbol in cells of one bit, a counter that addresses them, and a readout that decides.

    Index lookup, both forms of associative recall, multi-query recall, and equality of two halves. Weights
    and states are integers, so any arithmetic that has the small ones computes what the integers say. The
    state has N·⌈log₂|Σ|⌉ + O(log N) bits; that is nearly the least, up to the O(log N).
    """
    model = stored_input_model(task)
    return Witness(
        task=task,
        theorem="UP-RNN",
        family="rnn",
        variant="",
        model=_computing_with(model, choices.system),
        claims=(
            _claim(
                "UP-RNN",
                "steps of another memory",
                "from states of any bits and by any token, the next state is the memory's, bits again",
                "==",
                Fraction(0),
                "transitions",
            ),
            _claim(
                "UP-RNN",
                "bits beyond those of the symbols",
                "all of the state is bits, and so many are not cells for symbols but counter and register",
                "<=",
                Fraction(digits_for(task.length) + digits_for(task.vocabulary.size)),
                "bits",
            ),
            _lead("UP-RNN"),
        ),
    )


def dyck(task: Dyck, choices: Choices) -> Witness:
    """S-E with ReLU: a stack of `depth` slots and a bit for failure, all of them 0 or 1 at every length."""
    return _dyck(task, choices, activation="relu", variant="")


def dyck_sigmoid(task: Dyck, choices: Choices) -> Witness:
    """S-E with logistic units: each step brings them back to within ε/4 of 0 or 1, from within ε."""
    return _dyck(task, choices, activation="sigmoid", variant="sigmoid-type activations")


def _dyck(task: Dyck, choices: Choices, *, activation: Activation, variant: str) -> Witness:
    return Witness(
        task=task,
        theorem="S-E",
        family="rnn",
        variant=variant,
        model=_computing_with(dyck_rnn_model(task, activation=activation), choices.system),
        claims=(
            _claim(
                "S-E",
                "steps stay inside",
                "after any bracket the state lies in the box of the automaton's next state, by this much",
                ">=",
                Fraction(0),
                "state",
            ),
            _lead("S-E"),
        ),
    )


def _computing_with(model: RecurrentModel, system: NumberSystem) -> RecurrentModel:
    """The model in these numbers, which must hold its weights exactly."""
    for name, tensor in model.tensors().items():
        if not bool((system.decode_float64(system.encode(tensor)) == tensor).all()):
            raise InvalidInput(
                f"The numbers of {name_of(system)} do not hold all weights exactly, "
                f"such as those of {name}, up to "
                f"{float(tensor.abs().max()):g}. Try more bits."
            )
    return model.with_arithmetic(system)


def _claim(source: str, name: str, statement: str, relation: Relation, limit: Fraction, unit: str) -> Claim:
    return Claim(name=name, statement=statement, relation=relation, threshold=limit, unit=unit, source=source)


def _lead(source: str) -> Claim:
    return _claim(
        source,
        "lead of the right answer",
        "on every input the right answer's score exceeds every other's",
        ">",
        Fraction(0),
        "score",
    )
