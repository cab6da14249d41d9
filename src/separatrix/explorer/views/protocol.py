"""Alice and Bob run a model on an input that neither holds whole, and every bit between them is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols import (
    Arrangement,
    arrange,
    check_input,
    comparisons,
    run_protocols,
)
from separatrix.communication.protocols.arranging import Model
from separatrix.communication.protocols.in_process import run_in_process
from separatrix.communication.protocols.weights import weights_for
from separatrix.errors import InvalidInput
from separatrix.evidence import Message, Transcript
from separatrix.explorer.folder import Folder
from separatrix.explorer.view import Deadline, View, chosen, only, text_in
from separatrix.precision import name_of
from separatrix.tasks import TASKS, Classes, Task
from separatrix.tasks.interface import TokenTask, make
from separatrix.theorems import theorem

__all__ = ["VIEW"]

_LONGEST: Final = 200
_SMALLEST: Final = 2
_BITS_SHOWN: Final = 128


class _Setting(NamedTuple):
    """A task and a family for which there is a protocol, and inputs of which size are taken."""

    task: str
    family: str
    question: str
    example: str
    size: Callable[[str], int]
    """n, as the words of an input say."""
    most: int
    splits: tuple[str, ...]
    parameters: Mapping[str, Any] = MappingProxyType({})


def _words_but(count: int) -> Callable[[str], int]:
    return lambda text: len(text.split()) - count


def _characters(text: str) -> int:
    return len("".join(text.split()))


def _stated(text: str) -> int:
    """`4: 1>2 …` is a graph of 4 vertices."""
    before = text.partition(":")[0].strip()
    return int(before) if before.isascii() and before.isdigit() and len(before) < 4 else 0


_INDEX: Final = ("Which symbol stands where the last token points?", "s2 s0 s3 s1 s7 s4 @3", _words_but(1))
_EQUAL: Final = ("Are both halves the same?", "1 0 1 1 [SEP] 1 0 1 1", _words_but(1))
_DYCK: Final = ("Is it well nested, at most two deep?", "([])[()]", _characters)

SETTINGS: Final[Mapping[str, _Setting]] = MappingProxyType(
    {
        f"{each.task} by {each.family}": each
        for each in (
            _Setting("index-lookup", "rnn", *_INDEX, 12, ("prefix/suffix",), {"alphabet": 16}),
            _Setting("index-lookup", "transformer-1", *_INDEX, 12, ("prefix/suffix",), {"alphabet": 16}),
            _Setting("equality", "rnn", *_EQUAL, 12, ("halves",)),
            _Setting("equality", "transformer-1", *_EQUAL, 12, ("halves", "odd/even")),
            _Setting("dyck", "rnn", *_DYCK, 12, ("prefix/suffix",)),
            _Setting("dyck", "transformer-1", *_DYCK, 12, ("odd/even", "prefix/suffix")),
            _Setting(
                "disjointness",
                "transformer-1",
                "Do the two sets have an element in common?",
                "01101001",
                _characters,
                12,
                ("halves",),
            ),
            _Setting(
                "match2",
                "transformer-1",
                "Does a number make a multiple of 10 with the last one?",
                "3 8 7 1 4 2",
                _words_but(0),
                10,
                ("halves",),
                {"modulus": 10},
            ),
            _Setting(
                "associative-recall",
                "rnn",
                "What stood behind the key that comes last?",
                "k5 v1 k0 v3 k7 v1 k0",
                lambda text: (len(text.split()) - 1) // 2,
                6,
                ("prefix/suffix",),
                {"keys": 16, "values": 16},
            ),
            _Setting(
                "cycle3",
                "graph-transformer",
                "Which vertices lie on a cycle of three?",
                "6: 1>3 3>5 5>1 2>4 4>6",
                _stated,
                7,
                ("groups",),
            ),
        )
    }
)
_FIRST: Final = "equality by transformer-1"
_DEFAULT: Final = MappingProxyType({"run": _FIRST, "partition": "halves", "text": SETTINGS[_FIRST].example})
_MEANS: Final = (
    ("state after", "All that the model carries over the cut; the receiver goes on reading from there."),
    (
        "the query's vector",
        "The vector of the position that asks, so that both can compare their keys with it.",
    ),
    (
        "largest logits",
        "The largest logit over the sender's own keys; the larger of both is the largest of all.",
    ),
    ("sums of exps", "The sum over the sender's own keys; with both sums everybody knows their own weights."),
    ("parts of the weighted sums", "What the sender's positions add to the head's output."),
    ("keys and values", "What the sender's vertices show to all others in this layer."),
    ("the answer", "What the model says."),
    ("answers", "What the model says at the sender's vertices."),
)


def _answer(asked: dict[str, object], folder: Folder, deadline: Deadline) -> dict[str, object]:
    only(asked, "run", "partition", "text")
    name = chosen(asked, "run", tuple(SETTINGS), default=_FIRST)
    setting = SETTINGS[name]
    partition = chosen(asked, "partition", setting.splits, default=setting.splits[0])
    text = text_in(asked, "text", longest=_LONGEST, default=setting.example)
    task, row = _input(setting, text)
    arrangement = arrange(_model(name, task.n), task, partition=partition)
    deadline.check()
    transcript = run_protocols(arrangement, row.unsqueeze(0), keep=True)[0]
    deadline.check()
    return {
        "run": name,
        "partition": partition,
        "text": text,
        "runs": [_listed(each) for each in SETTINGS],
        "question": setting.question,
        "held": _held(arrangement, row),
        "messages": [_message(each) for each in transcript.messages],
        "bits": transcript.bits,
        "counts": [
            {"name": each.name, "formula": each.formula, "bits": each.bits}
            for each in arrangement.protocol.counts()
        ],
        "bounds": _bounds(transcript),
        "answers": _answers(arrangement, row, transcript),
        "knows": _knows(arrangement, row),
        "agrees": transcript.agrees,
        "theorem": transcript.protocol,
        "statement": theorem(transcript.protocol).statement,
        "arithmetic": name_of(arrangement.protocol.system),
    }


def _input(setting: _Setting, text: str) -> tuple[Task, Shaped[Tensor, "pos *width"]]:
    """The task of the size that the text needs, and the text as a row of it."""
    n = setting.size(text)
    if not _SMALLEST <= n <= setting.most:
        raise InvalidInput(
            f"{setting.task} is run here with n from {_SMALLEST} to {setting.most}, such as "
            f"`{setting.example}`; this input has n={n}."
        )
    task = make(TASKS.get(setting.task), {**setting.parameters, "n": n})
    together = isinstance(task, TokenTask) and not task.vocabulary.separator
    row = task.parse("".join(text.split()) if together else text)
    check_input(task, row)
    return task, row


@lru_cache(maxsize=64)
def _model(name: str, n: int) -> Model:
    """The weights in numbers as coarse as they bear."""
    setting = SETTINGS[name]
    task = make(TASKS.get(setting.task), {**setting.parameters, "n": n})
    return weights_for(task, setting.family)


def _listed(name: str) -> dict[str, object]:
    setting = SETTINGS[name]
    return {
        "name": name,
        "question": setting.question,
        "splits": list(setting.splits),
        "example": setting.example,
        "most": setting.most,
    }


def _held(arrangement: Arrangement, row: Shaped[Tensor, "pos *width"]) -> list[dict[str, object]]:
    """What stands at each position, and who holds it."""
    task = arrangement.task
    if isinstance(task, TokenTask):
        words = [task.vocabulary.word(token) for token in row.tolist()]
    else:
        # A row of an adjacency matrix: where the edges of a vertex lead.
        edges = [(each > 0).nonzero().flatten().tolist() for each in row]
        words = [
            f"{place}→{','.join(str(end + 1) for end in ends) or '·'}" for place, ends in enumerate(edges, 1)
        ]
    return [
        {"word": word, "holder": arrangement.protocol.holder(position)} for position, word in enumerate(words)
    ]


def _message(message: Message) -> dict[str, object]:
    assert message.payload is not None, "what was said was kept"
    spelled = "".join(f"{byte:08b}" for byte in message.payload[: _BITS_SHOWN // 8])
    means = next((says for start, says in _MEANS if message.name.startswith(start)), "")
    return {
        "sender": message.sender,
        "name": message.name,
        "bits": message.bits,
        "first": spelled[: message.bits],
        "means": means,
    }


def _bounds(transcript: Transcript) -> list[dict[str, object]]:
    """What every protocol needs on some input, as far as a number is proven; the largest first."""
    return [
        {
            "theorem": each.bound.theorem,
            "at_least": int(each.bound.at_least),
            "formula": each.bound.formula,
            "enough": each.enough,
        }
        for each in comparisons(transcript)
        if each.bound.at_least is not None
    ]


def _answers(
    arrangement: Arrangement, row: Shaped[Tensor, "pos *width"], transcript: Transcript
) -> list[dict[str, object]]:
    """At each position asked for: what the parties found, what the model says, and what is right."""
    labels = arrangement.task.solve(row.unsqueeze(0))
    found, direct = transcript.to_fields()["output"], transcript.to_fields()["direct_output"]
    assert isinstance(found, Sequence)
    assert isinstance(direct, Sequence)
    told: list[dict[str, object]] = []
    for ours, theirs, position in zip(found, direct, arrangement.protocol.asked, strict=True):
        assert isinstance(ours, Mapping)
        assert isinstance(theirs, Mapping)
        told.append(
            {
                "position": position + 1,
                "answer": _word(arrangement.task, ours["answer"]),
                "model": _word(arrangement.task, theirs["answer"]),
                "oracle": _word(arrangement.task, int(labels.targets[0, position])),
            }
        )
    return told


def _word(task: Task, value: object) -> str:
    """An answer as the task writes it."""
    space = task.target_space
    if isinstance(value, int) and isinstance(space, Classes) and value < space.size:
        return task.render_target(torch.tensor(value))
    return str(value)


def _knows(arrangement: Arrangement, row: Shaped[Tensor, "pos *width"]) -> list[str]:
    """Who knows every answer at the end, asked of the parties themselves."""
    _, known = run_in_process(arrangement.protocol, row.unsqueeze(0), keep=False)
    asked = set(arrangement.protocol.asked)
    return [party for party, runs in known.items() if asked <= set(runs[0])]


VIEW: Final = View(
    name="protocol",
    title="Alice and Bob",
    says=(
        "Two parties hold parts of one input and run a model on it together; every message is counted in "
        "bits, beside the bits that no protocol can do without."
    ),
    default=_DEFAULT,
    answer=_answer,
)
