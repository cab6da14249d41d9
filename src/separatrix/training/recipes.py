"""What is to be trained and how: a member's own settings, and those that a population shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from separatrix.options import check_types, option, require
from separatrix.record_checks import require_kind
from separatrix.records import JsonObject, Reader, Record

__all__ = ["SCHEDULES", "Against", "Curriculum", "Halving", "Member", "Schedule", "Training"]

Schedule = Literal["constant", "cosine", "wsd"]
SCHEDULES: Final[tuple[Schedule, ...]] = get_args(Schedule)
Precision = Literal["float32", "bfloat16", "float64"]
Stop = Literal["each", "first", "never"]

_MOST = 1 << 40
"""Steps and examples are fewer than this, far more than anybody will see."""
_MOST_BANDS = 64


@dataclass(frozen=True, kw_only=True)
class Member(Record):
    """What one member of a population has to itself.

    Its result is a function of this, of the task, the model and the training; its neighbours have no part
    in it, unless members are compared (halving, or a stop with the first): then they decide how long it
    goes on, and nothing else. The seed draws its first weights and its examples: members with one seed see
    the same examples.
    """

    SCHEMA = "separatrix.member"

    lr: float = option(1e-3, help="learning rate, at its height")
    seed: int = option(0, help="draws the first weights and the examples")
    weight_decay: float = option(0.0, help="decay of the matrices, decoupled from the gradient (AdamW)")
    schedule: Schedule = option("constant", help="how the learning rate goes on after the warm-up")
    warmup: int = option(0, help="steps over which the learning rate rises from 0")

    def __post_init__(self) -> None:
        check_types(self, name="A member")
        require(
            0 < self.lr < math.inf, f"A learning rate is a finite number above 0; got lr={self.lr}. Try 1e-3."
        )
        require(
            0 <= self.seed < 1 << 62,
            f"A member's seed lies between 0 and 2^62 − 1; got seed={_shown(self.seed)}.",
        )
        require(
            0 <= self.weight_decay < math.inf,
            f"A weight decay is a finite number of at least 0; got weight_decay={self.weight_decay}.",
        )
        require(
            0 <= self.warmup < _MOST,
            f"A warm-up has between 0 and 2^40 − 1 steps; got warmup={_shown(self.warmup)}.",
        )

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "lr": float(self.lr),
            "seed": self.seed,
            "weight_decay": float(self.weight_decay),
            "schedule": self.schedule,
            "warmup": self.warmup,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Member:
        """The member whose fields `read` holds."""
        return cls(
            lr=read.measured("lr"),
            seed=read.count("seed"),
            weight_decay=read.measured("weight_decay"),
            schedule=read.choice("schedule", SCHEDULES),
            warmup=read.count("warmup"),
        )

    def __str__(self) -> str:
        extra = f", weight decay {self.weight_decay:g}" if self.weight_decay else ""
        extra += "" if self.schedule == "constant" else f", {self.schedule}"
        extra += f", warm-up {self.warmup:,}" if self.warmup else ""
        return f"lr {self.lr:g}, seed {self.seed}{extra}"


@dataclass(frozen=True, kw_only=True)
class Curriculum(Record):
    """Short inputs first: n grows from `start` to the task's own in `stages` parts of `steps` steps."""

    SCHEMA = "separatrix.curriculum"

    start: int
    steps: int
    stages: int = 4

    def __post_init__(self) -> None:
        check_types(self, name="A curriculum")
        require(
            1 <= self.start < _MOST,
            f"A curriculum starts at n from 1 to 2^40 − 1; got start={_shown(self.start)}.",
        )
        require(
            1 <= self.stages <= 10_000,
            f"A curriculum has between 1 and 10,000 stages; got stages={_shown(self.stages)}.",
        )
        require(
            self.stages <= self.steps < _MOST,
            f"A curriculum has a step for each of its {self.stages:,} stages and at most 2^40 − 1; got "
            f"steps={_shown(self.steps)}.",
        )

    def sizes(self, n: int) -> tuple[tuple[int, int], ...]:
        """From which step on which n: rising, and ending with the task's own."""
        require(self.start <= n, f"A curriculum starts at n up to the task's {n}; got start={self.start}.")
        found: dict[int, int] = {}
        for stage in range(self.stages):
            size = round(self.start + (n - self.start) * stage / self.stages)
            found.setdefault(size, self.steps * stage // self.stages)
        found.setdefault(n, self.steps)
        return tuple((step, size) for size, step in found.items())

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"start": self.start, "steps": self.steps, "stages": self.stages}

    @classmethod
    def from_fields(cls, read: Reader) -> Curriculum:
        """The curriculum whose fields `read` holds."""
        return cls(start=read.count("start"), steps=read.count("steps"), stages=read.count("stages"))


@dataclass(frozen=True, kw_only=True)
class Halving(Record):
    """Successive halving: after `first` steps, and `factor` times as many again and again, few go on.

    At each of these rungs a member goes on if it is among the best 1/`factor` of all that have come there so
    far; the place of one that is dropped goes to the next that waits.
    """

    SCHEMA = "separatrix.halving"

    first: int
    factor: int = 2

    def __post_init__(self) -> None:
        check_types(self, name="Halving")
        require(
            1 <= self.first < _MOST,
            f"Halving has its first rung after 1 to 2^40 − 1 steps; got first={_shown(self.first)}.",
        )
        require(
            2 <= self.factor < _MOST,
            f"Halving keeps one in 2 to 2^40 − 1; got factor={_shown(self.factor)}.",
        )

    def rungs(self, steps: int) -> tuple[int, ...]:
        """The steps at which members are compared."""
        found, rung = [], self.first
        while rung < steps:
            found.append(rung)
            rung *= self.factor
        return tuple(found)

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"first": self.first, "factor": self.factor}

    @classmethod
    def from_fields(cls, read: Reader) -> Halving:
        """The halving whose fields `read` holds."""
        return cls(first=read.count("first"), factor=read.count("factor"))


@dataclass(frozen=True, kw_only=True)
class Against(Record):
    """Training against a member's own worst inputs: every `every` steps they are looked for and kept.

    An attack tries `cases` pairs of a question and a right answer, those of the step, and keeps the worse
    half of what it finds, right or wrong; of all that was found the newest `kept` stay. From the first attack
    on `share` of every batch is drawn from them.
    """

    SCHEMA = "separatrix.against"

    every: int
    share: float = 0.25
    cases: int = 256
    kept: int = 1024

    def __post_init__(self) -> None:
        check_types(self, name="Training against worst inputs")
        require(
            1 <= self.every < _MOST,
            f"Worst inputs are looked for every 1 to 2^40 − 1 steps; got every={_shown(self.every)}.",
        )
        require(
            0 < self.share < 1,
            f"The share of a batch that worst inputs have lies between 0 and 1; got share={self.share}. "
            "Try 0.25.",
        )
        for name in ("cases", "kept"):
            value = getattr(self, name)
            require(
                1 <= value <= 1 << 20,
                f"Training against worst inputs needs {name} from 1 to 2^20; got {name}={_shown(value)}.",
            )

    def attacks(self, steps: int) -> int:
        """How often a member is attacked in so many steps; after the last there is nothing to learn from."""
        return (steps - 1) // self.every

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"every": self.every, "share": float(self.share), "cases": self.cases, "kept": self.kept}

    @classmethod
    def from_fields(cls, read: Reader) -> Against:
        """What `read` holds."""
        return cls(
            every=read.count("every"),
            share=read.measured("share"),
            cases=read.count("cases"),
            kept=read.count("kept"),
        )


@dataclass(frozen=True, kw_only=True)
class Training(Record):
    """What all members of a population share.

    Everything here can change a result, so all of it belongs to a run's key; where it is run does not.
    """

    SCHEMA = "separatrix.training"

    steps: int = option(20_000, help="most steps of a member")
    batch: int = option(64, help="examples of a step, fresh ones each time")
    precision: Precision = option(
        "float32", help="of the products; bfloat16 keeps its weights and the optimiser in float32"
    )
    clip: float = option(1.0, help="longest gradient of a member; 0 for no limit")
    eval_every: int = option(500, help="steps between looks at the accuracy")
    eval_examples: int = option(1000, help="examples of each look, all of full length")
    test_examples: int = option(5000, help="examples of the last look, whose accuracy is reported")
    stop: Stop = option("each", help="end a member when it has solved the task, all with the first, or never")
    solved: float = option(1.0, help="accuracy at a look that counts as solved")
    bands: int = option(1, help="bands of lengths; a step has examples of one of them, and no longer padding")
    paired: bool = option(
        False, help="two inputs a row, without padding: lstm, mamba, retnet, linear-transformer"
    )
    curriculum: Curriculum | None = option(None, help="short inputs first", flag=False)
    halving: Halving | None = option(None, help="drop members that fall behind", flag=False)
    against: Against | None = option(None, help="feed a member's worst inputs back to it", flag=False)

    def __post_init__(self) -> None:
        check_types(self, name="Training")
        for name in ("steps", "batch", "eval_every", "eval_examples", "test_examples"):
            value = getattr(self, name)
            require(
                1 <= value < _MOST,
                f"Training needs {name.replace('_', ' ')} from 1 to 2^40 − 1; got {name}={_shown(value)}.",
            )
        require(
            0 <= self.clip < math.inf,
            f"A gradient's longest length is a finite number of at least 0; got clip={self.clip}.",
        )
        require(0 < self.solved <= 1, f"An accuracy lies above 0 and up to 1; got solved={self.solved}.")
        require_kind("Training", "curriculum", self.curriculum, Curriculum, or_none=True)
        require_kind("Training", "halving", self.halving, Halving, or_none=True)
        require(
            self.curriculum is None or self.halving is None,
            "Members under a curriculum go in step, and halving lets others start later; choose one of them.",
        )
        self._check_against()
        self._check_bands()
        self._check_paired()
        if self.curriculum is not None:
            require(
                self.curriculum.steps < self.steps,
                "A curriculum comes to the full n when its steps are over, and training goes on from there; "
                f"got {self.curriculum.steps:,} steps of it and {self.steps:,} in all. Give training more.",
            )
        if self.halving is not None:
            require(
                self.halving.first < self.steps,
                "Halving compares members on their way, so its first rung comes before their last step; got "
                f"first={self.halving.first:,} of {self.steps:,} steps.",
            )

    def _check_against(self) -> None:
        require_kind("Training", "against", self.against, Against, or_none=True)
        if self.against is None:
            return
        require(
            self.curriculum is None,
            "Worst inputs have full length and a curriculum begins with short ones; choose one of them.",
        )
        require(
            self.stop == "never",
            "Against its worst inputs a member goes on when random ones are all right; got "
            f"stop={self.stop}. Try stop=never.",
        )
        require(
            self.against.every < self.steps,
            "Worst inputs are looked for on a member's way, so for the first time before its last step; got "
            f"every={self.against.every:,} of {self.steps:,} steps.",
        )
        require(
            self.batch >= 2, "A batch that worst inputs share has at least two examples; got batch=1. Try 64."
        )

    def _check_bands(self) -> None:
        require(
            1 <= self.bands <= _MOST_BANDS,
            f"Lengths fall into 1 to {_MOST_BANDS} bands; got bands={_shown(self.bands)}. Try 4.",
        )
        turns = {"steps": self.steps, "eval every": self.eval_every}
        turns |= {} if self.halving is None else {"halving's first rung": self.halving.first}
        for name, count in turns.items():
            require(
                count % self.bands == 0,
                f"Bands take turns, and members come and go when all have had theirs; got {name} {count:,} "
                f"and bands={self.bands}. Try {self.bands * -(-count // self.bands):,}.",
            )
        require(
            self.bands == 1 or (self.curriculum is None and self.against is None),
            "Bands take lengths in turn, and a curriculum and worst inputs have lengths of their own; choose "
            "one of them.",
        )

    def _check_paired(self) -> None:
        if not self.paired:
            return
        require(
            self.batch % 2 == 0,
            f"Two inputs share a row, so a batch has an even number; got batch={self.batch}. "
            f"Try {self.batch + 1}.",
        )
        require(
            self.bands == 1 and self.curriculum is None and self.against is None,
            "Two inputs that fill a row have lengths of their own, and so have bands, a curriculum and worst "
            "inputs; choose one of them.",
        )

    @property
    def compares(self) -> bool:
        """Whether how long a member goes on depends on the others."""
        return self.halving is not None or self.stop == "first"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values; what joined later is left out where it is not asked for.

        So trainings that were described before it came keep their keys.
        """
        fields: JsonObject = {
            "steps": self.steps,
            "batch": self.batch,
            "precision": self.precision,
            "clip": float(self.clip),
            "eval_every": self.eval_every,
            "eval_examples": self.eval_examples,
            "test_examples": self.test_examples,
            "stop": self.stop,
            "solved": float(self.solved),
            "curriculum": None if self.curriculum is None else self.curriculum.to_fields(),
            "halving": None if self.halving is None else self.halving.to_fields(),
        }
        if self.against is not None:
            fields["against"] = self.against.to_fields()
        if self.bands > 1:
            fields["bands"] = self.bands
        if self.paired:
            fields["paired"] = True
        return fields

    @classmethod
    def from_fields(cls, read: Reader) -> Training:
        """The training whose fields `read` holds."""
        return cls(
            steps=read.count("steps"),
            batch=read.count("batch"),
            precision=read.choice("precision", ("float32", "bfloat16", "float64")),
            clip=read.measured("clip"),
            eval_every=read.count("eval_every"),
            eval_examples=read.count("eval_examples"),
            test_examples=read.count("test_examples"),
            stop=read.choice("stop", ("each", "first", "never")),
            solved=read.measured("solved"),
            curriculum=read.optional_record("curriculum", Curriculum),
            halving=read.optional_record("halving", Halving),
            against=read.record("against", Against) if read.has("against") else None,
            bands=read.count("bands") if read.has("bands") else 1,
            paired=read.yes("paired") if read.has("paired") else False,
        )


def _shown(value: int) -> str:
    """A number for a message, in which thousands of digits help nobody."""
    return str(value) if abs(value) < 10**30 else "a number beyond 10^30"
