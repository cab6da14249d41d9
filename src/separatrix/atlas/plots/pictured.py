"""Which tasks are pictured with both sides, and which results make the sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from separatrix.evidence import TaskSpec
from separatrix.tasks import TASKS
from separatrix.tasks.specs import defaults_of

__all__ = ["PICTURES", "Picture", "Suffices", "Who"]


@final
@dataclass(frozen=True, kw_only=True)
class Who:
    """Models on one side of a picture: the family that a bound speaks of, and what they are called."""

    family: str
    called: str
    hue: int
    """The number of its colour; recurrent models have the same one in every picture."""


RECURRENT: Final = Who(family="rnn", called="RNN", hue=0)
ONE_LAYER: Final = Who(family="transformer-1", called="1 layer", hue=1)
TWO_LAYERS: Final = Who(family="transformer-2", called="2 layers", hue=2)
THREE_LAYERS: Final = Who(family="transformer-3", called="3 layers", hue=2)
THIRD_ORDER: Final = Who(family="third-order", called="3rd order", hue=3)
GRAPHS: Final = Who(family="graph-transformer", called="graphs", hue=1)
PAIRS: Final = Who(family="transformer-1", called="pairs", hue=2)
THINKING: Final = Who(family="transformer-cot", called="with CoT", hue=2)
SEARCHING: Final = Who(family="linear-rnn+retrieval", called="searching", hue=3)


@final
@dataclass(frozen=True, kw_only=True)
class Suffices:
    """A construction of the catalogue; `task` where it is about an easier one than the picture's."""

    theorem: str
    who: Who
    variant: str = ""
    task: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True, kw_only=True)
class Picture:
    """A task, the families that a bound speaks of, and the constructions that are proven to do it."""

    task: str
    needs: tuple[Who, ...]
    suffices: tuple[Suffices, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""
    """What a reader of the picture would ask."""

    def spec(self, n: int, each: Suffices | None = None) -> TaskSpec:
        """The task, or the easier one of a construction, at a length."""
        name = self.task if each is None or not each.task else each.task
        given = self.settings if name == self.task else {}
        more = {} if each is None else each.settings
        return TaskSpec(name=name, params={**defaults_of(TASKS.get(name)), **given, **more, "n": n})


PICTURES: Final = (
    Picture(
        task="index-lookup",
        needs=(RECURRENT,),
        suffices=(
            Suffices(theorem="UP-RNN", who=RECURRENT),
            Suffices(theorem="S-T1", who=ONE_LAYER),
        ),
    ),
    Picture(
        task="associative-recall",
        needs=(RECURRENT,),
        suffices=(
            Suffices(theorem="UP-RNN", who=RECURRENT),
            Suffices(theorem="S-T7", who=TWO_LAYERS),
        ),
    ),
    Picture(
        task="nearest-neighbour",
        needs=(RECURRENT,),
        suffices=(Suffices(theorem="S-T7", who=TWO_LAYERS),),
        remark="The bound ends its rise where so few dimensions hold no more points with that margin.",
    ),
    Picture(
        task="equality",
        needs=(RECURRENT, ONE_LAYER),
        suffices=(
            Suffices(theorem="UP-RNN", who=RECURRENT),
            Suffices(theorem="UP-TF1", who=ONE_LAYER, variant="linear size"),
            Suffices(theorem="S-T6", who=TWO_LAYERS),
        ),
    ),
    Picture(
        task="disjointness",
        needs=(ONE_LAYER,),
        suffices=(
            Suffices(theorem="UP-TF1", who=ONE_LAYER, variant="linear size"),
            Suffices(theorem="S-T13", who=TWO_LAYERS),
        ),
    ),
    Picture(
        task="dyck",
        needs=(RECURRENT, ONE_LAYER),
        suffices=(
            Suffices(theorem="S-E", who=RECURRENT),
            Suffices(theorem="UP-TF1", who=ONE_LAYER, variant="linear size"),
            Suffices(theorem="S-E-cited", who=THREE_LAYERS),
        ),
    ),
    Picture(
        task="q-sparse-averaging",
        needs=(RECURRENT, ONE_LAYER),
        suffices=(Suffices(theorem="R-qSA", who=ONE_LAYER),),
        settings={"q": 4},
    ),
    Picture(
        task="match3",
        needs=(ONE_LAYER,),
        suffices=(
            Suffices(theorem="UP-M3", who=ONE_LAYER),
            Suffices(theorem="R-M3", who=THIRD_ORDER),
            Suffices(theorem="R-M2", who=PAIRS, task="match2"),
        ),
    ),
    Picture(
        task="cycle3",
        needs=(GRAPHS,),
        suffices=(Suffices(theorem="R-G", who=THIRD_ORDER, variant="graph unit of order 3"),),
    ),
    Picture(
        task="is-tree",
        needs=(RECURRENT,),
        suffices=(
            Suffices(theorem="W-4.7", who=THINKING, settings={"form": "cot"}),
            Suffices(theorem="W-5.3", who=SEARCHING, settings={"form": "retrieval", "trace": "full"}),
        ),
    ),
)
