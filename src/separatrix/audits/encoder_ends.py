"""What stands behind the layers of BERT: a head for words, a pooler, or a small map to labels.

Which of them a model has is said by the architecture that its config names, and a report says which of them
it counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from separatrix.audits.anatomy import linear_map
from separatrix.audits.attention import words_output
from separatrix.audits.fields import Fields

__all__ = ["End", "read_end"]

_WORDS: Final = "the head for words"
_POOLER: Final = "the pooler"
_PAIR: Final = "the map to 2 scores"
_LABELS: Final = "the map to labels"
_CHOICE: Final = "the map to a score"
_ENDS: Final = {
    "ForMaskedLM": (_WORDS,),
    "ForCausalLM": (_WORDS,),
    "LMHeadModel": (_WORDS,),
    "ForPreTraining": (_WORDS, _POOLER, _PAIR),
    "ForNextSentencePrediction": (_POOLER, _PAIR),
    "ForSequenceClassification": (_POOLER, _LABELS),
    "ForTokenClassification": (_LABELS,),
    "ForQuestionAnswering": (_LABELS,),
    "ForMultipleChoice": (_POOLER, _CHOICE),
    "Model": (_POOLER,),
}
"""By the end of an architecture's name; LMHeadModel stands before Model, which it ends in."""
_USUAL_LABELS: Final = 2
_LONGEST_NAME: Final = 60


@dataclass(frozen=True, kw_only=True)
class End:
    """The parameters behind the layers, and a sentence that says which they are."""

    parameters: int
    said: str


def read_end(fields: Fields, width: int, vocabulary: int) -> End:
    """The end of the first architecture that is known here; a config that names none has a head for words."""
    named = fields.texts("architectures") or ()
    for name in named:
        ending = next((ending for ending in _ENDS if name.endswith(ending)), None)
        if ending is not None:
            parts = _ENDS[ending]
            said = f"The parameters are those of {_short(name)}: {_listed(parts)} included."
            break
    else:
        parts = (_POOLER,) if named else (_WORDS,)
        said = (
            f"Counted with {_POOLER} of a bare model; what {_short(named[0])} adds to it is not counted."
            if named
            else f"The config names no architecture: {_WORDS} is counted, and no pooler."
        )
    return End(parameters=sum(_parameters(part, fields, width, vocabulary) for part in parts), said=said)


def _parameters(part: str, fields: Fields, width: int, vocabulary: int) -> int:
    dense = linear_map(width, width, bias=True)
    if part == _POOLER:
        return dense
    if part == _WORDS:  # a map, a norm, and the table of words once more with a bias
        # The bias stands there under two names, which are tied together with the table.
        twice = 0 if fields.flag("tie_word_embeddings", default=True) else vocabulary
        return dense + 2 * width + twice + words_output(fields, width, vocabulary, tied=True, bias=True)
    labels = {_PAIR: 2, _CHOICE: 1}.get(part)
    return linear_map(width, _labels(fields) if labels is None else labels, bias=True)


def _labels(fields: Fields) -> int:
    """How many labels the config names; transformers leaves two of them unsaid."""
    return fields.entries("id2label") or fields.count("num_labels", default=_USUAL_LABELS)


def _listed(parts: tuple[str, ...]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last} are" if others else f"{last} is"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
