"""What a user may do wrong with a model, and the exact words of the answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from separatrix.errors import InvalidInput, TooLarge
from separatrix.models.fnn import FeedForwardNet
from separatrix.models.graph_transformer import GraphTransformer
from separatrix.models.llama import Llama
from separatrix.models.population import Population, signature_of
from separatrix.models.third_order import ThirdOrder
from separatrix.models.transformer import Transformer
from separatrix.tasks.cycle3 import Cycle3
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Task
from separatrix.tasks.match3 import Match3
from separatrix.tasks.q_sparse_averaging import QSparseAveraging

LOOKUP = IndexLookup(n=5, alphabet=4)
AVERAGING = QSparseAveraging(n=5, q=2, d=3)
MATCHING = Match3(n=6)


def on(kind: type[Population], task: Task, *, members: int = 1, **options: object) -> Population:
    return kind(kind.Config(**options), signature_of(task), members=members)  # type: ignore[arg-type]


CONFIGS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: Transformer.Config(width=30, heads=4),
        "Transformer shares its width evenly among its heads; got width=30 and heads=4. Try width=28.",
    ),
    (
        lambda: Llama.Config(width=3, heads=8),
        "Llama shares its width evenly among its heads; got width=3 and heads=8. Try width=8.",
    ),
    (
        lambda: Llama.Config(width=12, heads=4),
        (
            "Llama turns the numbers of a head in pairs; got width=12 and heads=4, which gives a head 3. "
            "Try width=24."
        ),
    ),
    (
        lambda: ThirdOrder.Config(width=9, heads=2),
        "ThirdOrder shares its width evenly among its heads; got width=9 and heads=2. Try width=8.",
    ),
    (
        lambda: GraphTransformer.Config(width=9, heads=2),
        "GraphTransformer shares its width evenly among its heads; got width=9 and heads=2. Try width=8.",
    ),
    (lambda: Transformer.Config(heads=0), "Transformer needs at least one head; got heads=0."),
    (lambda: Transformer.Config(ffn=-1), "Transformer needs ffn of at least 0; got ffn=-1."),
    (lambda: Llama.Config(ffn=-2), "Llama needs ffn of at least 0; got ffn=-2."),
    (lambda: Llama.Config(layers=0), "Llama needs 1 to 1024 layers; got layers=0. Try 2."),
    (
        lambda: FeedForwardNet.Config(width=1 << 21),
        "FeedForwardNet needs a width of 1 to 2^20; got width=2097152. Try 64.",
    ),
    (
        lambda: FeedForwardNet.Config(token_width=0),
        "FeedForwardNet needs token_width of at least 1; got token_width=0. Try 8.",
    ),
    (
        lambda: ThirdOrder.Config(width=8.0),  # type: ignore[arg-type]
        "ThirdOrder needs a whole number for width; got 8.0.",
    ),
    (
        lambda: Llama.Config(causal=1),  # type: ignore[arg-type]
        "Llama needs True or False for causal; got 1.",
    ),
    (
        lambda: Llama.Config(embedding="random"),  # type: ignore[arg-type]
        "Llama knows embedding as learned or frozen or sinusoidal; got 'random'.",
    ),
]

FITS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: on(Transformer, AVERAGING),
        (
            "This task asks for answers that depend on what stands behind them, and transformer reads from "
            "left to right; take a transformer with causal=False (--no-causal) or third-order."
        ),
    ),
    (
        lambda: on(Llama, MATCHING),
        (
            "This task asks for answers that depend on what stands behind them, and llama reads from left "
            "to right; take a transformer with causal=False (--no-causal) or third-order."
        ),
    ),
    (
        lambda: on(GraphTransformer, QSparseAveraging(n=5, q=2, d=2)),
        (
            "graph-transformer reads an adjacency matrix, n rows of n zeros and ones; this task's inputs are "
            "5 rows of 4 numbers. Take cycle3 or cycle5, or another model."
        ),
    ),
    (
        lambda: on(GraphTransformer, LOOKUP),
        (
            "graph-transformer reads an adjacency matrix, n rows of n zeros and ones; this task's inputs are "
            "6 tokens. Take cycle3 or cycle5, or another model."
        ),
    ),
    (
        lambda: on(ThirdOrder, AVERAGING, embedding="frozen"),
        "Inputs of real numbers have no token table; got embedding=frozen. Leave it out.",
    ),
    (
        lambda: on(ThirdOrder, AVERAGING, tied=True),
        "third-order with tied=True answers with words of its input; this task's answers are none.",
    ),
    (lambda: on(Llama, LOOKUP, members=0), "A population has at least one member; got members=0."),
    (
        lambda: on(Llama, LOOKUP, members=2).initialise((1,)),
        "Each of the 2 members has a seed of its own; got 1 seeds.",
    ),
    (
        lambda: on(Llama, LOOKUP, members=2).member(2),
        "Members are numbered from 0 to 1; got 2.",
    ),
    (lambda: on(FeedForwardNet, LOOKUP).size(0, 32), "An input has at least one position; got n=0."),
    (
        lambda: on(Transformer, LOOKUP)(torch.zeros(1, 1, 7, dtype=torch.int64)),
        "This transformer has 6 positions and got an input of 7; build it for the longer input.",
    ),
    (
        lambda: on(ThirdOrder, MATCHING)(torch.zeros(1, 1, 9, dtype=torch.int64)),
        "This third-order has 6 positions and got an input of 9; build it for the longer input.",
    ),
    (
        lambda: on(GraphTransformer, Cycle3(n=5))(torch.zeros(1, 1, 6, 6)),
        "This graph-transformer has 5 positions and got an input of 6; build it for the longer input.",
    ),
    (
        lambda: on(GraphTransformer, Cycle3(n=5))(torch.zeros(1, 1, 4, 5)),
        "graph-transformer reads square adjacency matrices; got 4 rows of 5 numbers.",
    ),
    (
        lambda: on(FeedForwardNet, LOOKUP)(torch.zeros(1, 1, 5, dtype=torch.int64)),
        "This fnn reads inputs of exactly 6 positions and got one of 5; build it for that length.",
    ),
    (
        lambda: on(Transformer, AVERAGING, causal=False).start(1),  # type: ignore[operator]
        (
            "This transformer looks at what stands ahead and cannot read token by token; call forward on "
            "whole inputs, or build it with causal=True."
        ),
    ),
    (
        lambda: on(Llama, AVERAGING, causal=False).step(torch.zeros(1, 1, 5), (0, [])),  # type: ignore[operator]
        (
            "This llama looks at what stands ahead and cannot read token by token; call forward on whole "
            "inputs, or build it with causal=True."
        ),
    ),
]


@pytest.mark.parametrize(("call", "message"), CONFIGS + FITS)
def test_the_answer_is_in_words(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        call()
    assert str(error.value) == message


def test_third_order_refuses_what_would_never_end() -> None:
    with pytest.raises(TooLarge) as error:
        on(ThirdOrder, Match3(n=600))
    assert str(error.value) == (
        "third-order computes n³ logits on n positions and takes inputs of up to 512; this task's have 600. "
        "Take a smaller n, or a transformer."
    )
    model = on(ThirdOrder, Match3(n=500), width=2).to("meta")
    with pytest.raises(TooLarge) as error:
        model(torch.zeros(1, 18, 500, dtype=torch.int64, device="meta"))
    assert str(error.value) == (
        "third-order attends to pairs of positions, which here takes 2,250,000,000 logits at once, and at "
        "most 2,147,483,648 are formed; take a smaller batch or a shorter input."
    )
