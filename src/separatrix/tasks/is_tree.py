"""IsTree: the edges of a graph on n vertices, n − 1 of them; is it a tree? (W, section 4.2)

>>> from separatrix.tasks import task
>>> is_tree = task("is-tree", n=4, form="cot")
>>> row = is_tree.parse("<s> 1 ~ 3 2 ~ 3 3 ~ 4")
>>> is_tree.render(row)                      # the tour is added: down to 2, back, down to 4, back
'<s> 1 ~ 3 2 ~ 3 3 ~ 4 1 3 2 3 4 3 1'
>>> is_tree.render_target(is_tree.solve(row.unsqueeze(0)).answer[0])
'YES'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks import retrieval_trace as trace
from separatrix.tasks.domains import permutation, subset
from separatrix.tasks.interface import (
    Asking,
    Batch,
    ChainTask,
    Classes,
    Labels,
    Partition,
    option,
    require,
    require_numbered,
)
from separatrix.tasks.random_graphs import hub_graph, uniform_graph, vertex_pairs
from separatrix.tasks.shaping import constant, lay_out, positions
from separatrix.tasks.tree_search import LARGEST, search_rounds, tour
from separatrix.tasks.vocabulary import Vocabulary, numbered, words

NO, YES = 0, 1
# Columns that rows have to spare while they are written: the longest search has 15 tokens.
_SPARE = 16
# Numbers in a step of a search on a CPU: so few that they stay in cache and one thread does them all, since
# the many small steps would spend their time waiting for each other's threads.
_LOCKSTEP = 1 << 15


class _Chain(NamedTuple):
    """What was written behind the graph: which tokens a search returned, where it ends, and the verdict."""

    returned: Bool[Tensor, "batch wide"]
    end: Int[Tensor, "batch"]
    is_tree: Bool[Tensor, "batch"]


@TASKS.register("is-tree")
@dataclass(frozen=True, kw_only=True)
class IsTree(ChainTask):
    """Decide whether n − 1 edges on the vertices 1 … n form a tree.

    The input is `<s> u ~ v u ~ v …` with u < v in each edge and the edges in random order. `hub` graphs are
    W's: a random numbering of the vertices; all but two of them join one of the two hubs, by a fair coin; one
    more edge joins two that follow each other, so exactly half of the graphs are trees. `uniform` draws a
    tree, uniform among all labelled trees, or, with probability one half, a graph uniform among those with
    n − 1 edges that are no tree. The label is always "is a tree".

    Forms: `direct` answers at once. `cot` writes the depth-first tour first (W, algorithm 1), at most 2n − 1
    vertices. `retrieval` writes a trace of searches (W, algorithm 2), `compact` or `full`; what a search
    returns is not the model's to write and carries no label.
    """

    name = "is-tree"
    title = "IsTree"
    source = "W"
    showcase = MappingProxyType({"n": 12, "form": "cot"})

    n: int = option(help="number of vertices")
    form: Literal["direct", "cot", "retrieval"] = option("direct", help="what is written before the answer")
    trace: Literal["compact", "full"] = option("compact", help="how the retrieval form writes searches")
    graphs: Literal["hub", "uniform"] = option("hub", help="the law of the graphs")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(1 <= self.n <= LARGEST, f"is-tree needs 1 ≤ n ≤ {LARGEST} vertices; got n={self.n}. Try 16.")

    @property
    def vocabulary(self) -> Vocabulary:
        """Answers, special tokens, vertices from 0 (none), and pieces of patterns if they are written."""
        pieces = (words("piece", *trace.PIECES),) if self._full_trace else ()
        return Vocabulary(
            words("answer", "NO", "YES"),
            words("special", *trace.SPECIALS),
            numbered("vertex", self.n + 1),
            *pieces,
            padded=True,
        )

    @property
    def prompt(self) -> int:
        """Tokens of the graph: the start and three an edge."""
        return 1 + 3 * (self.n - 1)

    @property
    def length(self) -> int:
        """The graph and the longest chain of thought."""
        chain = {
            "direct": 0,
            "cot": 2 * self.n - 1,
            "retrieval": trace.longest_trace(self.n, full=self._full_trace),
        }
        return self.prompt + chain[self.form]

    @property
    def target_space(self) -> Classes:
        """NO or YES; with a chain of thought, any word."""
        return Classes(size=2 if self.form == "direct" else self.vocabulary.size)

    @property
    def asking(self) -> Asking:
        """From the end of the prompt on."""
        return Asking(most=self.length - self.prompt + 1)

    def draw(self, draws: Draws) -> Batch:
        """A graph by the chosen law, its edges shuffled, then what the form asks for."""
        require(self.n >= 4, f"is-tree samples graphs of at least 4 vertices; got n={self.n}. Try 4.")
        law = {"hub": hub_graph, "uniform": uniform_graph}[self.graphs]
        return self._write(_shuffled(draws, law(draws, self.n)))

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Reads the graph only: whatever chain follows it, the labels are those of the right one."""
        return self._write(self.edges(inputs)).labels

    def edges(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch edge 2"]:
        """The edges that a row begins with, as vertex numbers 1 … n."""
        triples = inputs[:, 1 : self.prompt].view(len(inputs), self.n - 1, 3)
        return triples[..., ::2] - self._first_vertex

    def expand(self, text: str) -> str:
        """A compact retrieval text, in full."""
        return self._retell(text, trace.expand)

    def contract(self, text: str) -> str:
        """A full retrieval text, in short."""
        return self._retell(text, trace.contract)

    def check_prompt(self, row: Int[Tensor, "prompt"]) -> None:
        """A graph of n − 1 different edges, each with its smaller end first."""
        written = self.vocabulary.render(row).split()
        require(
            len(written) == self.prompt and written[0] == "<s>" and set(written[2::3]) <= {"~"},
            f"is-tree with n={self.n} needs <s> and then {self.n - 1} edges as `u ~ v`; got "
            f"{_shorten(' '.join(written))!r}.",
        )
        seen = set()
        for first, second in zip(written[1::3], written[3::3], strict=True):
            require(
                first.isdigit() and second.isdigit() and 1 <= int(first) < int(second),
                f"An edge joins two vertices from 1 to {self.n}, the smaller first; got {first} ~ {second}.",
            )
            require((first, second) not in seen, f"Every edge stands once; got {first} ~ {second} twice.")
            seen.add((first, second))

    def completed(self, prompt: Int[Tensor, "prompt"]) -> Int[Tensor, "pos"]:
        """The graph with its chain."""
        return self._write(self.edges(prompt.unsqueeze(0))).inputs[0]

    def domain_size(self) -> int:
        """Every set of n − 1 edges in every order."""
        return math.comb(math.comb(self.n, 2), self.n - 1) * math.factorial(self.n - 1)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """Sets of edges in the combinatorial order, the orders of each one after another."""
        require_numbered(self)
        count = self.n - 1
        orders = math.factorial(count)
        pairs = vertex_pairs(self.n, "cpu")
        chosen = subset(numbers // orders, count, len(pairs))
        ordered = chosen.gather(1, permutation(numbers % orders, count))
        return self._write(pairs[ordered]).inputs

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds all edges but the last, Bob that one (W-4.7, from INDEX); the chain is the model's."""
        if self.n < 2:
            return {}
        return {"prefix/suffix": Partition.prefix(self.length, self.prompt - 3, given=self.prompt)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The word that is to be written."""
        return self.vocabulary.word(int(target))

    @property
    def _full_trace(self) -> bool:
        return self.form == "retrieval" and self.trace == "full"

    @property
    def _first_vertex(self) -> int:
        return 2 + len(trace.SPECIALS)

    def _write(self, edges: Int[Tensor, "batch edge 2"]) -> Batch:
        """Graph, chain and verdict of every example, a few at a time where that is faster."""
        rows = len(edges) if edges.is_cuda else max(1, _LOCKSTEP // self.n)
        parts = [self._write_rows(part) for part in torch.split(edges, rows)]
        return parts[0] if len(parts) == 1 else Batch.joined(parts)

    def _write_rows(self, edges: Int[Tensor, "batch edge 2"]) -> Batch:
        """Laid out for teacher forcing: each label is the token that follows."""
        pad = self.vocabulary.size - 1
        rows = torch.full((len(edges), self.length + 1 + _SPARE), pad, device=edges.device)
        self._write_graph(rows, edges)
        chain = (
            self._write_searches(rows, edges) if self.form == "retrieval" else self._write_tour(rows, edges)
        )
        end = chain.end.unsqueeze(1)
        targets = rows[:, 1 : self.length + 1].clone()
        inputs = rows[:, : self.length].contiguous()
        targets.scatter_(1, end - 1, torch.where(chain.is_tree, YES, NO).unsqueeze(1))
        place = positions(inputs)
        mask = (place >= self.prompt - 1) & (place < end)
        mask &= ~chain.returned[:, 1 : self.length + 1]
        return Batch(inputs=inputs, targets=targets.masked_fill_(~mask, 0), mask=mask, lengths=chain.end)

    def _write_graph(self, rows: Int[Tensor, "batch wide"], edges: Int[Tensor, "batch edge 2"]) -> None:
        start, joined = (2 + trace.SPECIALS.index(word) for word in ("<s>", "~"))
        rows[:, 0] = start
        rows[:, 1 : self.prompt : 3] = edges[..., 0] + self._first_vertex
        rows[:, 2 : self.prompt : 3] = joined
        rows[:, 3 : self.prompt : 3] = edges[..., 1] + self._first_vertex

    def _write_tour(self, rows: Int[Tensor, "batch wide"], edges: Int[Tensor, "batch edge 2"]) -> _Chain:
        walk = tour(edges, self.n)
        end = torch.full_like(walk[:, 0], self.prompt)
        if self.form == "cot":
            pad = self.vocabulary.size - 1
            rows[:, self.prompt : self.length] = torch.where(walk > 0, walk + self._first_vertex, pad)
            end += (walk > 0).sum(1)
        return _Chain(returned=torch.zeros_like(rows, dtype=torch.bool), end=end, is_tree=walk[:, -1] > 0)

    def _write_searches(self, rows: Int[Tensor, "batch wide"], edges: Int[Tensor, "batch edge 2"]) -> _Chain:
        rounds, is_tree = search_rounds(edges, self.n)
        segments = list((trace.full_segments if self._full_trace else trace.compact_segments)(rounds))
        vocabulary = self.vocabulary
        root = constant(tuple(vocabulary.token(word) for word in self._root_pair), edges.device)
        begin = self.prompt + len(root)
        rows[:, self.prompt : begin] = root

        def number(word: str | Tensor) -> Int[Tensor, "batch round"]:
            if isinstance(word, Tensor):
                return word + self._first_vertex
            return constant((vocabulary.token(word),), edges.device).expand_as(rounds.vertex)

        worded = [(list(map(number, segment.words)), segment.present) for segment in segments]
        places, end = lay_out(rows, worded, begin=begin, end=self.length + 1)
        returned = torch.zeros_like(rows, dtype=torch.bool)
        for segment, place in zip(segments, places, strict=True):
            if segment.returned:
                returned.scatter_(1, place, True)
        return _Chain(returned=returned, end=end, is_tree=is_tree)

    @property
    def _root_pair(self) -> tuple[str, ...]:
        return ("0", "-", "1") if self._full_trace else ("0", "1")

    def _retell(self, text: str, translate: Callable[[list[str]], list[str]]) -> str:
        written = text.split()
        return " ".join([*written[: self.prompt], *translate(written[self.prompt :])])


def _shuffled(draws: Draws, edges: Int[Tensor, "batch edge 2"]) -> Int[Tensor, "batch edge 2"]:
    """The edges in uniform order, each with its smaller end first."""
    order = draws.permutations("order", edges.shape[1])
    ends = [edges[..., side].gather(1, order) for side in (0, 1)]
    return torch.stack([torch.minimum(*ends), torch.maximum(*ends)], dim=-1)


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
