"""Room in a state: steps go on in place, and nothing else changes, whoever carries what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.generation.decoding import greedy
from separatrix.models import MODELS
from separatrix.models.interface import CausalModel
from separatrix.models.population import CausalPopulation, SingleMember, signature_of
from separatrix.tasks.index_lookup import IndexLookup

LOOKUP = IndexLookup(n=11, alphabet=5)
BATCH = 3


def built(name: str, *, members: int = 2) -> CausalPopulation:
    config = MODELS.get(name).Config(width=8, layers=2)
    made = MODELS.get(name)(config, signature_of(LOOKUP), members=members)
    assert isinstance(made, CausalPopulation)
    return made.initialise(range(members))


def tensors(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, list | tuple):
        for part in state:
            yield from tensors(part)


def stepped(
    model: CausalPopulation, *, reserve: dict[int, int]
) -> tuple[Float[Tensor, "pos member batch out"], list[Tensor]]:
    """All outputs and the last state, with room for so many made before these places."""
    inputs = torch.stack([LOOKUP.sample(BATCH, seed=seed).inputs for seed in range(model.members)])
    state, found = model.start(BATCH), []
    for place in range(inputs.shape[2]):
        if place in reserve:
            state = model.reserve(state, reserve[place])
        outputs, state = model.step(inputs[:, :, place], state)
        found.append(outputs)
    return torch.stack(found), list(tensors(state))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "llama", "hybrid", "mamba", "lstm", "retnet"])
@pytest.mark.parametrize("reserve", [{0: 12}, {0: 4}, {3: 2, 9: 1}, {0: 0, 5: 100}])
def test_room_changes_nothing_that_is_computed(name: str, reserve: dict[int, int]) -> None:
    model = built(name)
    with torch.no_grad():
        plain, carried = stepped(model, reserve={})
        roomy, other = stepped(model, reserve=reserve)
    assert torch.equal(plain, roomy)
    assert [state.shape for state in carried] == [state.shape for state in other], (
        "room is no part of a state"
    )
    assert all(torch.equal(*pair) for pair in zip(carried, other, strict=True))


def test_a_cache_with_room_grows_in_place() -> None:
    model = built("llama", members=1)
    with torch.no_grad():
        state = model.reserve(model.start(BATCH), 4)
        places = []
        for _ in range(6):
            _, state = model.step(torch.zeros(1, BATCH, dtype=torch.int64), state)
            places.append({cache.data_ptr() for cache in tensors(state)})
    assert places[0] == places[1] == places[2] == places[3], "four positions fit"
    assert not places[3] & places[4], "the fifth does not"


def test_gradients_flow_through_a_state_with_room() -> None:
    model = built("llama")

    def gradients(reserve: dict[int, int]) -> list[Tensor]:
        outputs, _ = stepped(model, reserve=reserve)
        return list(torch.autograd.grad(outputs.square().sum(), list(model.parameters())))

    pairs = zip(gradients({}), gradients({0: 20}), strict=True)
    assert all(torch.equal(plain, roomy) and plain.abs().sum() > 0 for plain, roomy in pairs)


def test_what_is_kept_goes_on_alone() -> None:
    model = built("llama", members=1)
    with torch.no_grad():
        one = model.member(0)
        assert isinstance(one, SingleMember)
        _, state = one.step(torch.tensor([1, 2, 3]), one.reserve(one.start(3), 9))
        kept = one.reserve(one.kept(state, torch.tensor([2, 0])), 2)
        before = [each.clone() for each in tensors(kept)]
        one.step(torch.tensor([4, 4, 4]), state)
        assert all(torch.equal(*pair) for pair in zip(before, tensors(kept), strict=True))


@pytest.mark.parametrize(
    "part",
    [(slice(None), slice(1, None)), (slice(None), slice(0, 2)), (slice(None), slice(None), slice(1, None))],
    ids=["last rows", "first rows", "last positions"],
)
def test_parts_of_a_cache_have_no_room(part: tuple[slice, ...]) -> None:
    model, tokens = built("llama", members=1), torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        state = model.reserve(model.start(3), 9)
        for _ in range(2):
            _, state = model.step(tokens, state)
        place, states = state
        before = [cache.clone() for cache in tensors(states)]
        views = [tuple(cache[part] for cache in caches) for caches in states]
        copies = [tuple(cache[part].clone() for cache in caches) for caches in states]
        wanted, _ = model.step(tokens[part[:2]], (place, copies))
        found, _ = model.step(tokens[part[:2]], (place, views))
        assert torch.equal(found, wanted)
        whole, _ = model.step(tokens, (place, [tuple(cache.clone() for cache in each) for each in states]))
        assert torch.equal(whole, model.step(tokens, (place, states))[0])
        assert all(torch.equal(*pair) for pair in zip(before, tensors(states), strict=True))


def test_decoding_makes_room_before_it_is_needed() -> None:
    class Counting(SingleMember):
        def reserve(self, state: Any, positions: int) -> Any:
            asked.append(positions)
            return super().reserve(state, positions)

    asked: list[int] = []
    alone = built("llama", members=1)
    roomy, plain = Counting(alone), _without_room(alone)
    prompts = [[1, 2, 3], [4, 3, 2], [2, 2, 1], [0, 1, 4], [1, 1, 1]]
    assert greedy(roomy, prompts, [0], 40) == greedy(plain, prompts, [0], 40)
    assert asked[0] == 6, "twice what stands in front"
    # Doubling: as many rounds of copies as the length has bits, and one when rows were dropped.
    assert len(asked) <= 6


def _without_room(population: CausalPopulation) -> CausalModel[Any]:
    class Plain(SingleMember):
        def reserve(self, state: Any, positions: int) -> Any:
            return state

    return Plain(population)
