"""What replays are held to: a second account of the next word, and runs of the weights.

Also a circuit that thinks before it answers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from separatrix.generation.decoding import generate
from separatrix.models.interface import CausalModel
from separatrix.witnesses import Witness
from separatrix.witnesses.replay import And, Constant, InputBit, RecurrentCircuit, ReplayScript, StateBit, Xor
from separatrix.witnesses.replay.gates_of import Wire, circuit_from_wires

__all__ = ["circuits", "following_word", "random_texts", "slow_parity", "unlike", "written"]


def following_word(circuit: RecurrentCircuit, text: Sequence[str]) -> str:
    """The word that comes after a text, from the places of words alone, without running the circuit.

    Written on strings: where each gate's inputs stand is counted from the end of the prompt.
    """
    end = text.index("=")
    inputs, chain = text[1:end], text[end + 1 :]
    step, gate = divmod(len(chain), len(circuit.gates) + 1)

    def value(of_step: int, of_gate: int) -> int:
        return int(chain[of_step * (len(circuit.gates) + 1) + of_gate])

    if gate == len(circuit.gates):
        if step + 1 < len(inputs):
            return inputs[step + 1]
        number = 0
        for source in circuit.output:
            number = 2 * number + value(step, source)
        return circuit.writes[number]
    read = chain[step * (len(circuit.gates) + 1) - 1] if step else inputs[0]
    match circuit.gates[gate]:
        case Constant(bit):
            found = bit
        case InputBit(place):
            found = circuit.reads[read][place]
        case StateBit(place):
            found = value(step - 1, circuit.state[place]) if step else circuit.start[place]
        case And(first, second):
            found = min(value(step, first), value(step, second))
        case Xor(first, second):
            found = (value(step, first) + value(step, second)) % 2
    return str(found)


def slow_parity() -> RecurrentCircuit:
    """Parity by a network with a chain of thought of its own: it says `hm` first, reads that, and answers.

    Its one bit of state says "even", so it does not start in 0.
    """

    def step(read: Sequence[Wire], state: Sequence[Wire]) -> tuple[list[Wire], list[Wire]]:
        is_b, thought = read
        even = state[0] ^ is_b
        return [even], [thought, even]

    return circuit_from_wires(
        step,
        name="slow parity",
        reads={"a": (0, 0), "b": (1, 0), "hm": (0, 1)},
        writes=("hm", "hm", "ODD", "EVEN"),
        start=(1,),
    )


def unlike(witness: Witness, circuit: RecurrentCircuit, texts: Sequence[Sequence[str]]) -> list[str]:
    """Texts of one length on which the weights, given the right chain, write another word somewhere in it."""
    script = _script(witness)
    steps = script.limit // (len(circuit.gates) + 1)
    chains = [circuit.chain(text, most_steps=steps) for text in texts]
    rows = torch.tensor(
        [
            [script.vocabulary.token(word) for word in ("<s>", *text, "=", *chain)]
            for text, chain in zip(texts, chains, strict=True)
        ]
    )
    start = len(texts[0]) + 1
    got = witness.model.answers(rows[:, :-1])[:, start:]
    wrong = (got != rows[:, start + 1 :]).any(1).tolist()
    return [" ".join(text) for text, bad in zip(texts, wrong, strict=True) if bad]


def written(witness: Witness, texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """What the weights write behind each text by themselves."""
    script = _script(witness)
    words = script.vocabulary
    assert isinstance(witness.model, CausalModel)
    prompts = [[words.token(word) for word in ("<s>", *text, "=")] for text in texts]
    runs = generate(witness.model, prompts, script, batch=256)
    return [[words.word(token) for token in run.written] for run in runs]


def random_texts(circuit: RecurrentCircuit, *, n: int, count: int, seed: int) -> list[list[str]]:
    """Texts of n words that the circuit reads and never writes."""
    drawn = random.Random(seed)
    words = [word for word in circuit.reads if word not in circuit.writes]
    return [[drawn.choice(words) for _ in range(n)] for _ in range(count)]


@st.composite
def circuits(draw: st.DrawFn) -> RecurrentCircuit:
    """Any small circuit that answers after the last word."""
    inputs, states, outputs = (draw(st.integers(low, high)) for low, high in ((1, 2), (0, 3), (1, 2)))
    count = draw(st.integers(1, 9))
    bit = st.integers(0, 1)
    gates: list[Constant | InputBit | StateBit | And | Xor] = []
    for number in range(count):
        kinds = ["constant", "input", *["state"] * (states > 0), *["and", "xor"] * (2 * (number > 0))]
        match draw(st.sampled_from(kinds)):
            case "constant":
                gates.append(Constant(draw(bit)))
            case "input":
                gates.append(InputBit(draw(st.integers(0, inputs - 1))))
            case "state":
                gates.append(StateBit(draw(st.integers(0, states - 1))))
            case kind:
                ends = (draw(st.integers(0, number - 1)), draw(st.integers(0, number - 1)))
                gates.append(And(*ends) if kind == "and" else Xor(*ends))
    gate = st.integers(0, count - 1)
    return RecurrentCircuit(
        name="random",
        reads={f"w{i}": (i >> 1, i & 1)[2 - inputs :] for i in range(1 << inputs)},
        writes=tuple(f"answer{i}" for i in range(1 << outputs)),
        start=tuple(draw(bit) for _ in range(states)),
        gates=tuple(gates),
        state=tuple(draw(gate) for _ in range(states)),
        output=tuple(draw(gate) for _ in range(outputs)),
    )


def _script(witness: Witness) -> ReplayScript:
    assert isinstance(witness.script, ReplayScript)
    return witness.script
