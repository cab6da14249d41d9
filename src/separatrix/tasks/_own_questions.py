"""Two-hop questions about invented people and towns.

Half of the paragraphs (rounded up) introduce one person each, the others one town each; everybody lives in
one of the towns described. A question asks for a fact about the town where somebody lives, so it takes that
person's paragraph and then that town's.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.randomness import Draws
from separatrix.tasks._question_source import Order, Source, shuffled
from separatrix.tasks._town_stories import ASKS, LINKS, Stories, question_pieces
from separatrix.tasks.byte_text import Pieces, divide, shorten
from separatrix.tasks.domains import arrangement, arrangements, digits, subset
from separatrix.tasks.interface import require

__all__ = ["OwnQuestions"]


class OwnQuestions(Source):
    """Questions from the invented stock; every choice is uniform."""

    def __init__(self, stories: Stories, *, n: int, order: Order) -> None:
        """`n` paragraphs from these stories."""
        self._stories = stories
        self._order: Order = order
        self._persons, self._places = n - n // 2, n // 2
        self.prompt_pieces = 3 * n + 2
        self.longest_continuation = stories.longest_continuation
        paragraphs = stories.longest_paragraphs(self._persons, self._places)
        self.longest = paragraphs + stories.longest_question + self.longest_continuation
        self.cut = stories.first_paragraphs(self._persons, self._places)
        self.prompt = self.cut + stories.first_question
        self.pieces = Pieces(stories.texts, width=self.longest)

    def draw(self, draws: Draws) -> Int[Tensor, "batch piece"]:
        """The gold pair is drawn first, at sites of its own, so that it is the same whatever n is."""
        stories, persons, places = self._stories, self._persons, self._places
        people = _different(draws, "person", "people", persons, stories.people)
        towns = _different(draws, "town", "towns", places, stories.towns)
        gold = torch.zeros_like(people[:, :1])
        homes = torch.cat([gold, _integers(draws, "homes", persons - 1, places)], dim=1)
        jobs, rivers, days = (
            torch.cat(
                [draws.integers(one, (1,), stories.facts), _integers(draws, more, count, stories.facts)], 1
            )
            for one, more, count in (
                ("job", "jobs", persons - 1),
                ("river", "rivers", places - 1),
                ("day", "days", places - 1),
            )
        )
        pair = torch.cat([gold, gold + persons], dim=1)
        order = shuffled(draws, persons + places, pair, self._order)
        asks = draws.integers("asks", (1,), len(ASKS))
        return self._chosen(
            people=people,
            towns=towns,
            homes=homes,
            facts=(jobs, rivers, days),
            order=order,
            asked=gold,
            asks=asks,
        )

    def count(self) -> int:
        """Lists of people and towns, homes, facts, the pattern of paragraphs, the question."""
        persons, places = self._persons, self._places
        stock = arrangements(persons, self._stories.people) * arrangements(places, self._stories.towns)
        facts: int = self._stories.facts ** (persons + 2 * places)
        homes: int = places**self._free_homes
        return stock * facts * homes * self._patterns * self._golds * len(ASKS)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch piece"]:
        """The question counts fastest, then the pattern, the homes, the facts, the towns, the people."""
        persons, places = self._persons, self._places
        if self._patterns >= 1 << 62:
            raise TooLarge(f"Inputs with {persons + places} paragraphs are too many to be numbered.")
        rest, asks = divide(numbers, len(ASKS))
        rest, gold = divide(rest, self._golds)
        rest, pattern = divide(rest, self._patterns)
        rest, number = divide(rest, places**self._free_homes)
        homes = digits(number, [places] * self._free_homes)
        facts = []
        for count in (persons, places, places):
            rest, number = divide(rest, self._stories.facts**count)
            facts.append(digits(number, [self._stories.facts] * count))
        rest, number = divide(rest, arrangements(places, self._stories.towns))
        towns = arrangement(number, places, self._stories.towns)
        people = arrangement(rest, persons, self._stories.people)
        if self._order == "random":
            order, asked = _in_turn(_marked(pattern, persons, persons + places), persons), gold
        else:
            # The gold person and town are the last of their kinds, and one of them is the last of all.
            homes = torch.cat([homes, torch.full_like(people[:, :1], places - 1)], dim=1)
            end = torch.stack([gold == 0, gold == 1], dim=1)
            before = _marked(pattern, persons - 1, persons + places - 2)
            order = _in_turn(torch.cat([before, end], dim=1), persons)
            asked = torch.full_like(gold, persons - 1)
        jobs, rivers, days = facts
        return self._chosen(
            people=people,
            towns=towns,
            homes=homes,
            facts=(jobs, rivers, days),
            order=order,
            asked=asked.unsqueeze(1),
            asks=asks.unsqueeze(1),
        )

    def continuation(self, paragraphs: list[str], question: str) -> str:
        """Read who lives where and what is said of each town; then take the two hops."""
        homes, facts = self._read(paragraphs)
        for kind, (ask, link) in enumerate(zip(ASKS, LINKS, strict=True)):
            name = question.removeprefix(f"Question: {ask}").removesuffix(" lives?")
            if name not in homes or f"{question}\n" != "".join(question_pieces(ask, name, "")):
                continue
            home = homes[name]
            last = {line[1:].partition("]")[0] for line in paragraphs[-2:]}
            require(
                self._order == "random" or last == {name, home},
                f"With order gold-last the paragraphs about {name} and {home} must come last.",
            )
            return self._stories.continuation(name, home, link, facts[home][kind])
        raise InvalidInput(
            f"The question must be '{ASKS[0]}… lives?' or '{ASKS[1]}… lives?' about one of the people; "
            f"got '{shorten(question)}'."
        )

    def _read(self, paragraphs: list[str]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
        """Homes by person, and days and rivers by town."""
        homes: dict[str, str] = {}
        facts: dict[str, tuple[str, str]] = {}
        for line in paragraphs:
            somebody, somewhere = self._stories.read_person(line), self._stories.read_town(line)
            if somebody is not None and somebody[0] not in homes:
                homes[somebody[0]] = somebody[1]
            elif somewhere is not None and somewhere[0] not in facts:
                facts[somewhere[0]] = somewhere[1]
            else:
                raise InvalidInput(
                    "A paragraph must be about a person or a town of the stock, each once, with known "
                    f"facts; got '{shorten(line)}'."
                )
        require(
            len(homes) == self._persons,
            f"{self._persons} of the paragraphs must be about people; got {len(homes)}.",
        )
        for home in homes.values():
            require(home in facts, f"Everybody must live in a town that has a paragraph; got '{home}'.")
        return homes, facts

    @property
    def _patterns(self) -> int:
        """How many ways there are to mix people and towns."""
        persons, places = self._persons, self._places
        if self._order == "random":
            return math.comb(persons + places, persons)
        return math.comb(persons + places - 2, persons - 1)

    @property
    def _golds(self) -> int:
        """Whom the question is about; with the gold pair last, which of the two comes first."""
        return self._persons if self._order == "random" else 2

    @property
    def _free_homes(self) -> int:
        """How many people may live anywhere: with the gold pair last, its person's home is settled."""
        return self._persons if self._order == "random" else self._persons - 1

    def _chosen(
        self,
        *,
        people: Int[Tensor, "batch persons"],
        towns: Int[Tensor, "batch places"],
        homes: Int[Tensor, "batch persons"],
        facts: tuple[Int[Tensor, "batch persons"], Int[Tensor, "batch places"], Int[Tensor, "batch places"]],
        order: Int[Tensor, "batch paragraph"],
        asked: Int[Tensor, "batch 1"],
        asks: Int[Tensor, "batch 1"],
    ) -> Int[Tensor, "batch piece"]:
        """The numbers of an example's pieces; `homes`, `order` and `asked` count within the example."""
        first = self._stories.first
        jobs, rivers, days = facts
        about_people = (people + first["person"], jobs + first["job"], towns.gather(1, homes) + first["home"])
        about_towns = (towns + first["town"], rivers + first["river"], days + first["day"])
        paragraphs = torch.cat([torch.stack(about_people, 2), torch.stack(about_towns, 2)], dim=1)
        paragraphs = paragraphs.gather(1, order.unsqueeze(2).expand(-1, -1, 3))
        who, where = people.gather(1, asked), homes.gather(1, asked)
        home, day, river = (table.gather(1, where) for table in (towns, days, rivers))
        value = torch.where(asks == 0, day, river + self._stories.facts)
        pieces = [paragraphs.flatten(1), asks + first["ask"], who + first["who"]]
        if self._stories.chain:
            so = torch.full_like(asks, first["so"])
            told = value + first["value"]
            pieces += [who + first["lives"], home + first["there"], asks + first["link"], told, so, told]
        else:
            pieces.append(value + first["answer"])
        return torch.cat(pieces, dim=1)


def _integers(draws: Draws, site: str, count: int, bound: int) -> Int[Tensor, "batch count"]:
    """Uniform whole numbers, or none."""
    if count == 0:
        return torch.zeros(draws.batch, 0, dtype=torch.int64, device=draws.device)
    return draws.integers(site, (count,), bound)


def _different(draws: Draws, one: str, others: str, count: int, bound: int) -> Int[Tensor, "batch count"]:
    """Different uniform numbers, the first of them at a site of its own."""
    chosen = draws.integers(one, (1,), bound)
    if count == 1:
        return chosen
    rest = draws.distinct(others, count - 1, bound - 1)
    return torch.cat([chosen, rest + (rest >= chosen)], dim=1)


def _marked(pattern: Int[Tensor, "batch"], count: int, bound: int) -> Bool[Tensor, "batch bound"]:
    """The set of `count` places below `bound` with this number."""
    marks = torch.zeros(len(pattern), bound, dtype=torch.bool, device=pattern.device)
    return marks.scatter_(1, subset(pattern, count, bound), True)


def _in_turn(person: Bool[Tensor, "batch paragraph"], persons: int) -> Int[Tensor, "batch paragraph"]:
    """People in turn where marked, towns in turn elsewhere."""
    return torch.where(person, person.cumsum(1) - 1, persons + (~person).cumsum(1) - 1)
