"""Tasks for EleutherAI's lm-evaluation-harness: a task file in YAML and the examples as JSON lines beside it.

The file is data only: templates, a filter and a metric of the harness's own, and no function of ours. A task
with one answer among a few is asked as a multiple choice, any other has the model write on. Examples that
are shown before the question come from a file of their own, with numbers that are never asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import torch

from separatrix.errors import InvalidInput
from separatrix.interop import task_folders
from separatrix.interop.task_examples import Example, check_wanted, examples, json_lines
from separatrix.interop.task_folders import CARD, SHOWN_LINES, TEST_LINES, TaskFolder, write_folder
from separatrix.interop.yaml_text import yaml_text
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.byte_text import ByteTask
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.equality import Equality
from separatrix.tasks.interface import Classes, Task
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.match3 import Match3
from separatrix.tasks.specs import spec_of

__all__ = ["harness_config", "harness_name", "write_harness_folder"]

MOST_SHOTS: Final = 64
_USUAL_SHOTS: Final = 4
_MOST_CHOICES: Final = 16
_SPARE_TOKENS: Final = 16
_VERSION: Final = 1
_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "index-lookup": "Each input is a list of symbols and a position, written @p, counted from 1. "
    "Answer with the symbol at that position.",
    "associative-recall": "Each input is a list of keys, each followed by its value, and at the end a key "
    "once more. Answer with the value that followed that key when it first occurred.",
    "mqar": "Each input is a list of keys, each followed by its value, and then the same keys in another "
    "order. Answer with the values of these keys, in their new order, separated by blanks.",
    "nearest-neighbour": "Each input is a list of points with their labels, and a point without one, marked "
    "by ?. Answer with the label of the listed point that agrees with it in the most places.",
    "dyck": "Each input is a string of brackets. Answer 1 if it is balanced, so that every bracket is closed "
    "by one of its own kind in the right order, and 0 if not.",
    "equality": "Each input is two strings of symbols with [SEP] between them. Answer 1 if they are equal, "
    "and 0 if not.",
    "disjointness": "Each input is two strings of bits of the same length, one after the other. Answer 1 if "
    "there is a position at which both have a 1, and 0 if there is none.",
    "sparse-threshold": "Each input is a string of bits. A fixed rule counts some features of it and answers "
    "1 or 0. Answer as the examples do.",
    "q-sparse-averaging": "Each input is a list of items, each with a vector v and a set S of positions, "
    "counted from 1. Answer with the average of the vectors at the positions in S, for every item in turn.",
    "match2": "Each input is a list of numbers. Answer, for every number in turn, 1 if it and another one "
    "satisfy the rule that the examples follow, and 0 if not.",
    "match3": "Each input is a list of numbers. Answer, for every number in turn, 1 if it and two others "
    "satisfy the rule that the examples follow, and 0 if not.",
    "cycle3": "Each input is a directed graph: the number of its vertices and its edges. Answer, for every "
    "vertex in turn, 1 if it lies on a cycle of length 3, and 0 if not.",
    "cycle5": "Each input is a graph: the number of its vertices and its edges. Answer, for every vertex in "
    "turn, 1 if five edges lead from it back to it, and 0 if not.",
    "c-gram": "Each input is a string of symbols, and at its end some symbols that occurred in it in a row. "
    "Answer with the symbol that followed them when they first occurred.",
    "counting": "Each input is a list of symbols, then one symbol more, and a number behind >. Answer 1 if "
    "that symbol occurs in the list more often than the number says, and 0 if not.",
    "is-tree": "Each input is the edges of a graph, each as u ~ v. Answer YES if the graph is a tree, and NO "
    "if not.",
    "turing": "Each input is a tape that a Turing machine reads. Answer with its steps and the tape that it "
    "leaves, as the examples do.",
}
"""What is asked, in words; text tasks say it themselves."""
_SEQUENCE: Final = (
    "Each input is a list of symbols, and at the end one of them once more. Answer with the symbol that "
    "followed it when it first occurred."
)
_BY_EXAMPLE: Final = "Answer as the examples do."


def harness_name(task: Task) -> str:
    """The name under which the harness knows it."""
    return task_folders.harness_name(task.name, task.n)


def harness_config(task: Task, folder: Path, *, shots: int | None, most_tokens: int) -> dict[str, object]:
    """The fields of the task file, for examples in this folder.

    The harness looks for files from where it is started, so the paths are absolute ones.
    """
    place = folder.absolute()
    choices = _choices(task)
    if choices is not None:
        asking: dict[str, object] = {
            "output_type": "multiple_choice",
            "doc_to_choice": choices,
            "doc_to_target": "answer",
            "metric_list": [_metric("acc")],
        }
    else:
        asking = {
            "output_type": "generate_until",
            "doc_to_target": "{{answer}}",
            # A worked example shows the whole of what is to be written; only its end is scored.
            "fewshot_config": {"sampler": "first_n", "doc_to_target": "{{target}}"},
            "generation_kwargs": {
                "until": ["\n\n" if _reasons(task) else "\n"],
                "do_sample": False,
                "max_gen_toks": most_tokens,
            },
            "filter_list": [
                {
                    "name": "answer",
                    "filter": [
                        {"function": "regex", "regex_pattern": _pattern(task)},
                        {"function": "take_first"},
                    ],
                }
            ],
            "metric_list": [_metric("exact_match")],
        }
    return {
        "task": harness_name(task),
        "dataset_path": "json",
        "dataset_kwargs": {
            "data_files": {"test": str(place / TEST_LINES), "shown": str(place / SHOWN_LINES)}
        },
        "test_split": "test",
        "fewshot_split": "shown",
        "num_fewshot": _shots(task, shots),
        "description": _description(task),
        "doc_to_text": "{{input}}" if isinstance(task, ByteTask) else "Input: {{input}}\nAnswer:",
        "target_delimiter": " ",
        "fewshot_delimiter": "\n\n",
        "fewshot_config": {"sampler": "first_n"},
        **asking,
        "metadata": {"version": _VERSION},
    }


def write_harness_folder(
    task: Task, folder: Path | str, *, count: int, seed: int = 0, start: int = 0, shots: int | None = None
) -> TaskFolder:
    """Write a folder for `lm_eval --include_path FOLDER --tasks NAME`: the task file and its examples.

    `shots` worked examples come before each question: by default four, and none before a text that has its
    own. They are those that follow the ones that are asked. A folder that is there is treated as by
    `write_task_folder`.
    """
    check_wanted(count, seed, start)
    shown = max(1, _shots(task, shots))
    check_wanted(count + shown, seed, start)
    longest = 0

    def measured(example: Example) -> Example:
        nonlocal longest
        longest = max(longest, len(example.target.encode()))
        return example

    def asked() -> Iterator[bytes]:
        return json_lines(map(measured, examples(task, count=count, seed=seed, start=start)))

    def worked() -> Iterator[bytes]:
        return json_lines(examples(task, count=shown, seed=seed, start=start + count))

    def config() -> Iterator[bytes]:
        fields = harness_config(task, Path(folder), shots=shots, most_tokens=longest + _SPARE_TOKENS)
        yield yaml_text(fields).encode()

    def card() -> Iterator[bytes]:
        yield _card(task, Path(folder), count).encode()

    return write_folder(
        folder,
        task,
        {TEST_LINES: asked, SHOWN_LINES: worked, f"{harness_name(task)}.yaml": config, CARD: card},
        file=TEST_LINES,
        seed=seed,
        start=start,
        count=count,
    )


def _shots(task: Task, shots: int | None) -> int:
    if shots is None:
        return 0 if isinstance(task, ByteTask) else _USUAL_SHOTS
    if not 0 <= shots <= MOST_SHOTS:
        raise InvalidInput(
            f"A question comes after 0 to {MOST_SHOTS} worked examples; got shots={shots}. "
            f"Try {_USUAL_SHOTS}."
        )
    return shots


def _choices(task: Task) -> list[str] | None:
    """Every answer there is, if a question has one of a few."""
    space = task.target_space
    if not isinstance(space, Classes) or task.asking.most != 1 or not 2 <= space.size <= _MOST_CHOICES:
        return None
    return [task.render_target(torch.tensor(number)) for number in range(space.size)]


def _reasons(task: Task) -> bool:
    """Whether what is to be written has reasoning of more than a line before the answer."""
    return isinstance(task, ByteTask) and task.cue != "Answer:"


def _pattern(task: Task) -> str:
    """The answer in what a model wrote: after the reasoning, the last word of a chain, or the first line."""
    if _reasons(task):
        return r"(?:^|\n)\s*Answer:[ \t]*([^\n]*\S)"
    if isinstance(task, IsTree):
        return r"(?:^|\s)(\S+)\s*$"
    return r"^\s*([^\n]*\S)"


def _metric(name: str) -> dict[str, object]:
    return {"metric": name, "aggregation": "mean", "higher_is_better": True}


def _description(task: Task) -> str:
    return "" if isinstance(task, ByteTask) else f"{_words(task)}\n\n"


def _words(task: Task) -> str:
    """What is asked; forms of a task that its sentence does not fit are left to the examples."""
    match task:
        case AssociativeRecall(form="sequence"):
            return _SEQUENCE
        case Equality(form="ncp") | Equality(alice=tuple()) | Match3(variant="last"):
            return _BY_EXAMPLE
        case Dyck(form="recognise"):
            return f"{_DESCRIPTIONS[task.name]} Answer 0 too if more than {task.depth} are open at once."
        case Dyck():
            return _BY_EXAMPLE
        case IsTree(form="cot" | "retrieval"):
            return f"{_DESCRIPTIONS[task.name]} Before the answer, write what the examples write there."
        case _:
            return _DESCRIPTIONS.get(task.name, _BY_EXAMPLE)


def _card(task: Task, folder: Path, count: int) -> str:
    name = harness_name(task)
    return (
        f"# {task.title} for lm-evaluation-harness\n\n"
        f"{count:,} questions of {spec_of(task)}, with the oracle's answers.\n\n"
        "```sh\n"
        f"lm_eval --model hf --model_args pretrained=MODEL_FOLDER --include_path {folder} --tasks {name}\n"
        "```\n\n"
        "The harness's own models of Hugging Face need `pip install 'lm-eval[hf]'`.\n\n"
        f"`{name}.yaml` is data only, so no code is run. It names `{TEST_LINES}` and `{SHOWN_LINES}` by "
        "their absolute paths: after moving the folder, change the two lines under `data_files`.\n"
    )
