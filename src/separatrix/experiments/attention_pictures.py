"""Attention on one input of sparse averaging, side by side: a unit while it learns, the target, the witness.

The record holds the matrices, rounded to four digits, and the figure draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.evidence import TaskSpec
from separatrix.models.specs import ModelSpec
from separatrix.options import require
from separatrix.record_checks import require_text
from separatrix.records import JsonObject, Reader, Record
from separatrix.training.recipes import Member

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AttentionPicture", "AttentionPictures", "attention_picture", "distance", "figure"]

Matrix: TypeAlias = "tuple[tuple[float, ...], ...]"

_DIGITS: Final = 4
_LARGEST: Final = 1 << 10
_INCHES: Final = (10.8, 2.8)
_INK: Final = "#1c2733"
_FAINT: Final = "#5b6875"
_EDGE: Final = "#d55e00"


@dataclass(frozen=True, kw_only=True)
class AttentionPicture(Record):
    """One matrix, how far it is from the target, and how often whoever attends so is right."""

    SCHEMA: ClassVar[str] = "separatrix.attention-picture"

    name: str
    weights: Matrix
    """A row for each query."""
    distance: float
    """From the target: see `distance`."""
    right: int
    """Test inputs of which every answer is right."""
    examples: int
    label_accuracy: float
    """The share of single answers that are right."""

    def __post_init__(self) -> None:
        require_text("A picture of attention", name=self.name)
        rows = self.weights
        require(
            1 <= len(rows) <= _LARGEST and all(len(row) == len(rows) for row in rows),
            f"A picture of attention is a square of 1 to {_LARGEST} rows; '{self.name[:40]}' is none.",
        )
        shares = (self.distance, self.label_accuracy, *(weight for row in rows for weight in row))
        require(
            all(0 <= share <= 1 for share in shares) and 0 <= self.right <= self.examples,
            f"Weights and shares lie between 0 and 1 and at most all are right; not so '{self.name[:40]}'.",
        )

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "name": self.name,
            "distance": self.distance,
            "right": self.right,
            "examples": self.examples,
            "label_accuracy": self.label_accuracy,
            "weights": [list(row) for row in self.weights],
        }

    @classmethod
    def from_fields(cls, read: Reader) -> AttentionPicture:
        """The picture whose fields `read` holds."""
        return cls(
            name=read.text("name"),
            distance=read.measured("distance"),
            right=read.count("right"),
            examples=read.count("examples"),
            label_accuracy=read.measured("label_accuracy"),
            weights=tuple(_numbers(row, "weights", read) for row in read.items("weights")),
        )


@dataclass(frozen=True, kw_only=True)
class AttentionPictures(Record):
    """What a unit attends to on one input while it learns to average, beside what the theorem's unit does."""

    SCHEMA: ClassVar[str] = "separatrix.attention-pictures"

    task: TaskSpec
    model: ModelSpec
    member: Member
    q: int
    text: str
    """The input."""
    sets: tuple[tuple[int, ...], ...]
    """S_1 … S_n, places counted from 1."""
    steps: tuple[int, ...]
    """After how many steps the unit is shown."""
    trained: tuple[AttentionPicture, ...]
    """One for each of `steps`."""
    witness: AttentionPicture

    def __post_init__(self) -> None:
        require(
            len(self.steps) == len(self.trained) and list(self.steps) == sorted(set(self.steps)),
            f"There is a picture for each number of steps, and these rise; got {len(self.trained)} pictures "
            f"for the steps {self.steps}.",
        )
        sizes = {len(picture.weights) for picture in (*self.trained, self.witness)}
        require(
            sizes == {len(self.sets)},
            f"Pictures of attention among {len(self.sets)} places have as many rows; got {sorted(sizes)}.",
        )
        require(
            self.q >= 1
            and all(len(members) <= self.q for members in self.sets)
            and all(1 <= member <= len(self.sets) for members in self.sets for member in members),
            f"A set has at most q={self.q} members, places from 1 to {len(self.sets)}; got another.",
        )

    @property
    def target(self) -> Matrix:
        """1/q at the members of each set."""
        share = round(1 / self.q, _DIGITS)
        places = range(1, len(self.sets) + 1)
        return tuple(tuple(share if j in members else 0.0 for j in places) for members in self.sets)

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, the target among them for whoever draws it."""
        return {
            "task": self.task.to_fields(),
            "model": self.model.to_fields(),
            "member": self.member.to_fields(),
            "q": self.q,
            "text": self.text,
            "sets": [list(members) for members in self.sets],
            "steps": list(self.steps),
            "trained": [picture.to_fields() for picture in self.trained],
            "witness": self.witness.to_fields(),
            "target": [list(row) for row in self.target],
        }

    @classmethod
    def from_fields(cls, read: Reader) -> AttentionPictures:
        """The pictures whose fields `read` holds."""
        pictures = cls(
            task=read.record("task", TaskSpec),
            model=read.record("model", ModelSpec),
            member=read.record("member", Member),
            q=read.count("q"),
            text=read.text("text"),
            sets=tuple(_counts(row, "sets", read) for row in read.items("sets")),
            steps=_counts(read.items("steps"), "steps", read),
            trained=read.records("trained", AttentionPicture),
            witness=read.record("witness", AttentionPicture),
        )
        read.agrees("target", pictures.to_fields()["target"])
        return pictures


def attention_picture(
    name: str,
    weights: Float[Tensor, "query key"],
    target: Float[Tensor, "query key"],
    *,
    right: int,
    examples: int,
    label_accuracy: float,
) -> AttentionPicture:
    """A matrix, rounded, with its distance from the target."""
    return AttentionPicture(
        name=name,
        weights=tuple(tuple(round(weight, _DIGITS) for weight in row) for row in weights.tolist()),
        distance=round(distance(weights, target), _DIGITS),
        right=right,
        examples=examples,
        label_accuracy=label_accuracy,
    )


def distance(weights: Float[Tensor, "query key"], target: Float[Tensor, "query key"]) -> float:
    """The share of the weight that is in the wrong place: total variation, the mean of all queries.

    Where a row sums to less than 1 the rest lies on elements that are not shown, which count as one place.
    """
    weights, target = weights.double(), target.double()
    hidden = (weights.sum(1) - target.sum(1)).abs()
    apart = ((weights - target).abs().sum(1) + hidden) / 2
    return min(1.0, float(apart.mean()))


def figure(pictures: AttentionPictures) -> Figure:
    """All matrices in a row under one scale of colour; where a set has a member, the unit's have an edge."""
    from matplotlib.figure import Figure  # noqa: PLC0415  a heavy import, needed for figures only

    drawing = Figure(figsize=_INCHES, layout="constrained")
    panels = drawing.subplots(1, len(pictures.trained) + 2, sharex=True, sharey=True)
    *learning, middle, last = panels
    for axes, picture in zip(learning, pictures.trained, strict=True):
        _draw(axes, picture.weights, pictures, heading=picture.name, beneath=_said(picture))
        _edge(axes, pictures.sets)
    _draw(middle, pictures.target, pictures, heading="target", beneath="1/q at the members of\nevery set")
    _draw(
        last,
        pictures.witness.weights,
        pictures,
        heading=pictures.witness.name,
        beneath=_said(pictures.witness),
    )
    panels[0].set_ylabel("place that asks", color=_FAINT, fontsize=8.0)
    bar = drawing.colorbar(
        panels[0].images[0], ax=list(panels), shrink=0.8, pad=0.01, aspect=16, extend="max"
    )
    bar.set_label("weight", color=_FAINT, fontsize=8.0)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=7.0)
    return drawing


def _draw(axes: Axes, weights: Matrix, pictures: AttentionPictures, *, heading: str, beneath: str) -> None:
    size = len(weights)
    axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.5 / pictures.q, interpolation="nearest")
    axes.set_title(heading, fontsize=10.0, loc="left", color=_INK)
    axes.set_xlabel(beneath, fontsize=8.0, color=_INK, loc="left")
    axes.set_xticks([0, size - 1], ["1", f"{size}"], fontsize=7.0, color=_FAINT)
    axes.set_yticks([0, size - 1], ["1", f"{size}"], fontsize=7.0, color=_FAINT)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set(visible=True, color="#c5ccd4", linewidth=0.6)


def _edge(axes: Axes, sets: Sequence[Sequence[int]]) -> None:
    """An edge around every entry that should have weight, just within it."""
    from matplotlib.collections import PatchCollection  # noqa: PLC0415
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    corners = [(member - 1.44, query - 0.44) for query, members in enumerate(sets) for member in members]
    edges = [Rectangle(corner, 0.88, 0.88) for corner in corners]
    axes.add_collection(PatchCollection(edges, facecolor="none", edgecolor=_EDGE, linewidth=0.6))


def _said(picture: AttentionPicture) -> str:
    astray, right = 100 * picture.distance, 100 * picture.label_accuracy
    return f"{astray:.1f} % of weight astray\n{right:.1f} % of answers right"


def _numbers(row: object, name: str, read: Reader) -> tuple[float, ...]:
    if not isinstance(row, list | tuple) or not all(type(number) in (int, float) for number in row):
        raise InvalidFile(f"Field '{name}' of {read.what} holds rows of numbers; got another row.")
    return tuple(float(number) for number in row)


def _counts(row: object, name: str, read: Reader) -> tuple[int, ...]:
    if not isinstance(row, list | tuple) or not all(type(number) is int and number >= 0 for number in row):
        raise InvalidFile(f"Field '{name}' of {read.what} holds whole numbers from 0; got others.")
    return tuple(row)
