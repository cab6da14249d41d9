"""Recurrent models that keep their input in cells of one bit and decide at the end.

They are the upper partners of the bounds on recurrent memory: as many bits as the symbols need, and O(log N)
for a counter and a query. With b(x) = max(1, ⌈log₂ x⌉), the states have exactly

    index lookup                     n·b(|Σ|) + 2·b(n)
    associative recall, pairs        n·(b(keys) + b(values)) + b(keys) + b(n)
    associative recall, sequence     (n + 1)·b(|Σ|) + b(n + 1)
    multi-query recall               n/2·2·b(V/2) + b(V/2) + b(n)           V tokens, half of them keys
    equality                         n/2·b(|Σ|) + b(n/2)

bits. Equality needs half of what storing all of its input would take: the second string is added to the first
modulo 2, cell by cell, and the strings are equal iff all cells are 0 in the end.

Every unit is ReLU of an integer, and every entry of the state is 0 or 1 after any tokens whatever. The parts:

*Counter.* With "advance" the input that says a symbol came, bit k of the counter becomes

    c_k + ReLU(advance + Σ_{i<k} c_i − k) − 2·ReLU(advance + c_k + Σ_{i<k} c_i − k − 1):

the first ReLU is 1 iff advance and all lower bits are 1, the second iff c_k is 1 as well; so c_k flips iff a
carry reaches it. Otherwise nothing changes.

*Address.* −dist_j = Σ_k ±c_k − (ones in j) is minus the number of bits in which the counter differs from j:
0 if the counter is at j, else −1 or less.

*Cell.* The unit ReLU(x_i − dist_j − cell_{j,i}) is 1 iff the counter is at j, bit i of the symbol is 1 and
the cell is 0; added to the cell it stores the bit and leaves every other cell alone. No cell is ever
addressed twice by a valid input. What waits for its place, as a key for its label, waits in a register.

*Register.* ReLU(r_i − new) + ReLU(x_i) is the old register unless "new" came with the bits x.

*Readout.* It compares the register with all addresses or keys at once, by dist_j or Σ_i |key_{j,i} − r_i|,
and ReLU(bit − distance) lets through the bits of the one cell that is meant. Cells never written are 0: they
may agree with a query, and then contribute nothing.
"""

from __future__ import annotations

from separatrix.errors import InvalidInput
from separatrix.models.explicit.recurrent import Readout, RecurrentModel
from separatrix.models.explicit.recurrent_maps import Coordinates, spread, summed
from separatrix.models.explicit.recurrent_tokens import DigitScores, TokenBlock, TokenCode, digits_for
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.equality import Equality
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import TokenTask
from separatrix.tasks.mqar import MultiQueryRecall
from separatrix.witnesses._rnn_blocks import ONE, MapWriter, addresses, layer, vector
from separatrix.witnesses._rnn_memory import Memory
from separatrix.witnesses._rnn_recall import first_match_readout, matching_key_readout, pick_sum

__all__ = ["state_bits", "stored_input_model"]


def state_bits(task: TokenTask) -> int:
    """Bits of the state, by the formula of the task."""
    if isinstance(task, IndexLookup):
        return task.n * digits_for(task.alphabet) + 2 * digits_for(task.n)
    if isinstance(task, AssociativeRecall) and task.form == "pairs":
        keys, values = (digits_for(count) for count in _pair_sizes(task))
        return task.n * (keys + values) + keys + digits_for(task.n)
    if isinstance(task, AssociativeRecall):
        return (task.n + 1) * digits_for(task.target_space.size) + digits_for(task.n + 1)
    if isinstance(task, MultiQueryRecall):
        digits = digits_for(task.vocabulary_size // 2)
        return task.n // 2 * 2 * digits + digits + digits_for(task.n)
    if isinstance(task, Equality) and task.form != "ncp" and task.alice is None:
        return task.n // 2 * digits_for(task.symbols) + digits_for(task.n // 2)
    raise _unknown(task)


def stored_input_model(task: TokenTask) -> RecurrentModel:
    """The model for a task's own sizes: every input of every length the task allows is answered rightly."""
    if isinstance(task, IndexLookup):
        return _index_lookup(task)
    if isinstance(task, AssociativeRecall) and task.form == "pairs":
        keys, values = _pair_sizes(task)
        return _pairs(
            size=task.vocabulary.size, keys=keys, values=values, pairs=task.n, counter=digits_for(task.n)
        )
    if isinstance(task, AssociativeRecall):
        return _sequence(task)
    if isinstance(task, MultiQueryRecall):
        half = task.vocabulary_size // 2
        # The labels behind the queries are counted too, past the last cell, so that none is written.
        return _pairs(
            size=task.vocabulary.size, keys=half, values=half, pairs=task.n // 2, counter=digits_for(task.n)
        )
    if isinstance(task, Equality) and task.form != "ncp" and task.alice is None:
        return _equality(task)
    raise _unknown(task)


def _unknown(task: TokenTask) -> InvalidInput:
    return InvalidInput(
        "A model that stores its input is built for index-lookup, associative-recall, mqar, and equality of "
        f"the first half with the second in the forms random and one; got {task}."
    )


def _pair_sizes(task: AssociativeRecall) -> tuple[int, int]:
    """How many keys and labels there are."""
    vocabulary = task.vocabulary
    values = task.target_space.size
    return vocabulary.size - 1 - values, values


def _index_lookup(task: IndexLookup) -> RecurrentModel:
    """Cells by position; the index waits in the register `wanted`, counted from 0 as the cells are."""
    digits, places = digits_for(task.alphabet), digits_for(task.n)
    tokens = TokenCode(
        size=task.vocabulary.size,
        blocks=(
            TokenBlock(name="symbol", first=0, count=task.alphabet, digits=digits),
            TokenBlock(name="index", first=task.alphabet, count=task.n, digits=places),
        ),
    )
    state = Coordinates.of(cells=task.n * digits, counter=places, wanted=places)
    units = Coordinates.of(
        store=task.n * digits, flip=places, clear=places, keep_wanted=places, new_wanted=places
    )
    memory = Memory(tokens.coordinates, state, units)
    memory.count("symbol")
    memory.store("cells", "store", cells=task.n, first=0, from_input="symbol digits")
    memory.register("wanted", keep="keep wanted", new="new wanted", when="index", bits="index digits")

    signs, bias = addresses(0, task.n, places)
    picked = Coordinates.of(pick=task.n * digits)
    compare = MapWriter(picked, state).each("pick", "cells")
    compare.add("pick", "wanted", signs, inner=spread(digits))
    first = layer(compare, vector(picked, pick=bias.repeat_interleave(digits)))
    return RecurrentModel(
        tokens=tokens,
        update=memory.update(),
        readout=Readout(
            layers=(first, pick_sum(picked, task.n, digits)),
            scores=DigitScores(classes=task.alphabet, digits=digits),
        ),
        binary=("cells", "counter", "wanted"),
    )


def _pairs(*, size: int, keys: int, values: int, pairs: int, counter: int) -> RecurrentModel:
    """A key waits in the register `asked`; its label stores both, at the pair that the counter names.

    At a key, the answer is the label stored with an equal key; the first time a key comes there is none.
    """
    key_digits, value_digits = digits_for(keys), digits_for(values)
    tokens = TokenCode(
        size=size,
        blocks=(
            TokenBlock(name="value", first=0, count=values, digits=value_digits),
            TokenBlock(name="key", first=values, count=keys, digits=key_digits),
        ),
    )
    state = Coordinates.of(
        keys=pairs * key_digits, values=pairs * value_digits, asked=key_digits, counter=counter
    )
    units = Coordinates.of(
        store_keys=pairs * key_digits,
        store_values=pairs * value_digits,
        flip=counter,
        clear=counter,
        keep_asked=key_digits,
        new_asked=key_digits,
    )
    memory = Memory(tokens.coordinates, state, units)
    memory.count("value")
    memory.store("keys", "store keys", cells=pairs, first=0, from_register=("asked", "value"))
    memory.store("values", "store values", cells=pairs, first=0, from_input="value digits")
    memory.register("asked", keep="keep asked", new="new asked", when="key", bits="key digits")
    return RecurrentModel(
        tokens=tokens,
        update=memory.update(),
        readout=Readout(
            layers=matching_key_readout(state, pairs, key_digits, value_digits),
            scores=DigitScores(classes=values, digits=value_digits),
        ),
        binary=("keys", "values", "asked", "counter"),
    )


def _sequence(task: AssociativeRecall) -> RecurrentModel:
    """The last token waits in the register `last`; it is stored when the next one comes.

    So the query, behind which nothing comes, is in the register and in no cell. Cell j takes the register
    when the counter is at j + 1: when the counter is at 0, nothing has come yet.
    """
    alphabet = task.target_space.size
    digits, places = digits_for(alphabet), digits_for(task.n + 1)
    tokens = TokenCode(
        size=task.vocabulary.size,
        blocks=(TokenBlock(name="symbol", first=0, count=alphabet, digits=digits),),
    )
    state = Coordinates.of(cells=task.n * digits, last=digits, counter=places)
    units = Coordinates.of(
        store=task.n * digits, flip=places, clear=places, keep_last=digits, new_last=digits
    )
    memory = Memory(tokens.coordinates, state, units)
    memory.count("symbol")
    memory.store("cells", "store", cells=task.n, first=1, from_register=("last", "symbol"))
    memory.register("last", keep="keep last", new="new last", when="symbol", bits="symbol digits")
    return RecurrentModel(
        tokens=tokens,
        update=memory.update(),
        readout=Readout(
            layers=first_match_readout(state, task.n, digits),
            scores=DigitScores(classes=alphabet, digits=digits),
        ),
        binary=("cells", "last", "counter"),
    )


def _equality(task: Equality) -> RecurrentModel:
    """Cell j becomes cell + x_i modulo 2 when the counter is at j; [SEP] sends the counter back to 0.

    cell + ReLU(x_i − dist_j) − 2·ReLU(x_i − dist_j + cell − 1): the first ReLU is 1 iff the bit is addressed
    and 1, the second iff the cell is 1 as well. After w the cells hold w, and after w′ what differs.
    """
    half, digits = task.n // 2, digits_for(task.symbols)
    places = digits_for(half)
    tokens = TokenCode(
        size=task.vocabulary.size,
        blocks=(
            TokenBlock(name="symbol", first=0, count=task.symbols, digits=digits),
            TokenBlock(name="separator", first=task.symbols, count=1),
        ),
    )
    state = Coordinates.of(cells=half * digits, counter=places)
    units = Coordinates.of(touch=half * digits, both=half * digits, flip=places, clear=places, reset=places)
    memory = Memory(tokens.coordinates, state, units)
    memory.count("symbol")
    memory.reset("separator")
    memory.add_modulo_2("cells", "touch", "both", cells=half, from_input="symbol digits")
    scores = Coordinates.of(different=1, equal=1)
    compare = MapWriter(scores, state).add("different", "cells", 2 * ONE, inner=summed(half * digits))
    return RecurrentModel(
        tokens=tokens,
        update=memory.update(),
        readout=Readout(layers=(layer(compare, vector(scores, equal=1)),)),
        binary=("cells", "counter"),
    )
