"""`separatrix audit`: what a model weighs and carries, from its config alone, and what that cannot hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

import separatrix
from separatrix.cli.flags import (
    AsJson,
    Whole,
    assembled,
    list_flag,
    model_flags,
    named_model,
    own_options,
)
from separatrix.cli.output import note, printable_line, write_json
from separatrix.errors import InvalidFile, InvalidInput

if TYPE_CHECKING:
    from separatrix.audits import Audit
    from separatrix.models.population import Population

__all__ = ["audit", "audit_command"]

_OWN_LENGTHS: Final = (64, 256, 1024)
_MOST_COMPARED: Final = 4


def audit(
    found: tuple[Audit, ...],
    *,
    plot: Annotated[
        Path | None, Parameter(help="File for a figure of state against n; it ends in .svg or .png.")
    ] = None,
    chart: Annotated[
        bool, Parameter(help="Draw state against n with characters.", negative=(), show_default=False)
    ] = False,
    json: AsJson = False,
) -> None:
    """Count a model from its config.json alone: parameters, state at each length, the walls of its memory."""
    from separatrix.audits.catalogue import KINDS
    from separatrix.audits.plots import plot_state
    from separatrix.cli.audit_pages import page, page_side_by_side

    if plot is not None:
        plot_state(found, plot)
    if any(one.generic for one in found):
        note(f"Known types: {', '.join(KINDS)}.")
    if json:
        facts = [dict(one.to_fields()) for one in found]
        answer = facts[0] if len(facts) == 1 else {"models": facts}
        write_json({**answer, "plot": None if plot is None else str(plot)})
        return
    if len(found) == 1:
        page(found[0], with_chart=chart)
    else:
        page_side_by_side(found)
    if plot is not None:
        print(printable_line(str(plot)))


def audit_command(words: Sequence[str]) -> Callable[..., int | None]:
    """`audit` with the flags of the model of ours that the words begin with, if they do."""
    from separatrix.audits.auditing import LENGTHS

    first = words[0] if words and not words[0].startswith("-") else None
    model = None if first is None else _own_model(first)
    usual = LENGTHS if model is None and not (first is not None and _is_spec(first)) else _OWN_LENGTHS
    options = own_options(audit, taken={"found"}, types={"Audit": object})
    counting = [_COMPARED, _TASK, _PRECISION, _STATE_PRECISION]
    of_model = model_flags(model, taken={"n", *(option.name for option in (*options, *counting))})

    def run(config: str | None = None, /, **given: Any) -> int | None:
        sources = (*(() if config is None else (config,)), *given.pop("compare", ()))
        if not 1 <= len(sources) <= _MOST_COMPARED:
            raise InvalidInput(
                f"audit puts at most {_MOST_COMPARED} models side by side; got {len(sources)}."
                if sources
                else "audit needs a config.json, a folder with one or the name of a model of ours; got none."
            )
        asked = _Asked(
            lengths=given.pop("n", usual),
            precision=given.pop("precision", None),
            state_precision=given.pop("state_precision", None),
            task=given.pop("task", None),
        )
        parameters = of_model.popped(given)
        ours = [source for source in sources if _own_model(source) is not None or _is_spec(source)]
        if asked.task is not None and not ours:
            raise InvalidInput("--task says what a model of ours reads; a config says that itself.")
        audit(
            tuple(
                _audited(source, asked, parameters if place == 0 and model is not None else {})
                for place, source in enumerate(sources)
            ),
            **given,
        )
        return None

    flags = [_CONFIG, _lengths_flag(usual), *counting, *of_model.flags, *options]
    return assembled(run, flags, like=audit)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is to be counted, for every model of a command line."""

    lengths: tuple[int, ...]
    precision: int | None
    state_precision: int | None
    task: str | None


def _audited(source: str, asked: _Asked, parameters: dict[str, Any]) -> Audit:
    """The audit of a config, of a spec, or of a model of ours with these parameters."""
    from separatrix.audits.auditing import audit as audited
    from separatrix.audits.auditing import require_lengths
    from separatrix.options import made

    lengths = require_lengths(asked.lengths)
    model = _own_model(source)
    is_ours = model is not None or _is_spec(source)
    # The largest length is the task's n, since a model that reads it must have the words for it.
    task = separatrix.task(asked.task, n=max(lengths)) if is_ours and asked.task is not None else None
    return audited(
        source if model is None else made(model.Config, parameters, name=model.name),
        n=lengths,
        precision=asked.precision,
        state_precision=asked.state_precision,
        task=task,
    )


def _own_model(name: str) -> type[Population] | None:
    """The model of ours of this name; a file or folder of that name goes before it."""
    if _is_there(name) or "/" in name or name.endswith(".json"):
        return None
    from separatrix.models import MODELS

    if ":" not in name and name not in MODELS:
        raise InvalidFile(
            f"An audit reads a config; there is no file '{name[:80]}', and no model of ours has that name. "
            f"Known: {', '.join(MODELS.names())}."
        )
    return named_model(name)


def _is_spec(source: str) -> bool:
    """Whether a path leads to the spec of a model of ours; what cannot be read is refused later."""
    from separatrix.audits.auditing import is_own
    from separatrix.audits.configs import json_at

    try:
        return _is_there(source) and is_own(json_at(Path(source)))
    except InvalidFile:
        return False


def _is_there(name: str) -> bool:
    """Whether a path leads somewhere; one that is no path at all does not."""
    try:
        return Path(name).exists()
    except OSError:
        return False


_CONFIG: Final = inspect.Parameter(
    "config",
    inspect.Parameter.POSITIONAL_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        Parameter(
            help="A config.json, a folder with one, the spec of a model of ours, or such a model's name.",
            show_default=False,
        ),
    ],
)
_COMPARED: Final = inspect.Parameter(
    "compare",
    inspect.Parameter.KEYWORD_ONLY,
    default=(),
    annotation=Annotated[
        tuple[str, ...],
        Parameter(
            help="Models to put beside it, or beside each other.",
            consume_multiple=True,
            negative_iterable=(),
            show_default=False,
        ),
    ],
)
_TASK: Final = inspect.Parameter(
    "task",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None, Parameter(help="Task whose inputs a model of ours reads. [default: index-lookup]")
    ],
)
_PRECISION: Final = inspect.Parameter(
    "precision",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Whole | None,
        Parameter(help="Bits of a number in weights and caches. [default: the config's dtype; 32 for ours]"),
    ],
)
_STATE_PRECISION: Final = inspect.Parameter(
    "state_precision",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Whole | None,
        Parameter(help="Bits of a number in recurrent states that are kept in float32. [default: 32]"),
    ],
)


def _lengths_flag(usual: tuple[int, ...]) -> inspect.Parameter:
    flag = list_flag(
        "n", int, help="Lengths at which the state is counted.", default=0, group=Group("Options", sort_key=2)
    )
    return flag.replace(default=usual)
