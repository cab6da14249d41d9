"""Our models as folders of transformers: loaded by the Auto classes, they are what they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import separatrix
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.interop import register_auto, save_pretrained_folder
from separatrix.interop.causal_lm import load_causal_lm, quietly, require_transformers
from separatrix.interop.hub_searches import FREE, SearchWatch
from separatrix.models import MODELS
from separatrix.models.population import CausalPopulation, Population, signature_of
from separatrix.precision import system_named
from separatrix.tasks.interface import Task, Tokens
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses import Choices, witness_for
from separatrix.witnesses.solving import ask

pytestmark = pytest.mark.extra

CAUSAL = (
    "transformer",
    "llama",
    "lstm",
    "linear-transformer",
    "retnet",
    "dss",
    "mamba",
    "hybrid",
    "linear-rnn",
)


def loaded(folder: Path, **options: Any) -> tuple[Any, Any]:
    """The model and the tokenizer that transformers makes of a folder."""
    transformers = require_transformers()
    register_auto()
    with quietly(transformers):
        model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    return model, tokenizer


def graphs(n: int, count: int, *, seed: int, law: str = "uniform") -> tuple[IsTree, Tensor]:
    task = separatrix.task("is-tree", n=n, form="cot", graphs=law)
    assert isinstance(task, IsTree)
    return task, task.sample(count, seed=seed).inputs


def texts(task: IsTree, rows: Tensor) -> list[str]:
    return [" ".join(task.render(row).split()[: task.prompt]) for row in rows]


def generated(model: Any, tokenizer: Any, prompts: Sequence[str], **options: Any) -> list[str]:
    given = tokenizer(list(prompts), return_tensors="pt", padding=True)
    with quietly(require_transformers()):
        found = model.generate(**given, **options)
    return list(tokenizer.batch_decode(found, skip_special_tokens=True))


def trained(name: str, task: Task, *, seed: int = 4) -> Population:
    """A population of two; what training would do to it does not matter here."""
    kind = MODELS.get(name)
    return kind(kind.Config(), signature_of(task), members=2).initialise([seed, seed + 1])


@pytest.mark.parametrize("variant", ["", "every n"])
def test_the_witness_writes_the_tour_and_the_answer(variant: str, tmp_path: Path) -> None:
    task, rows = graphs(8, 12, seed=3)
    witness = witness_for(task, family="transformer-cot", variant=variant)
    model, tokenizer = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    written = generated(model, tokenizer, texts(task, rows))
    solutions = ask(witness, rows)
    right = [task.render_target(each) for each in task.solve(rows).answer]
    assert {"YES", "NO"} == set(right)
    assert [text.split()[-1] for text in written] == right
    assert [tuple(text.split()[task.prompt :]) for text in written] == [each.words for each in solutions]
    # The tour of a tree is the task's own.
    for text, row, answer in zip(written, rows, right, strict=True):
        if answer == "YES":
            assert text == f"{task.render(row)} YES"


@pytest.mark.slow
def test_generate_decides_200_graphs(tmp_path: Path) -> None:
    """Half of them trees, of all sizes up to what the witness is built for, against two oracles."""
    n = 32
    whole = separatrix.task("is-tree", n=n, form="cot")
    witness = witness_for(whole, family="transformer-cot", variant="every n")
    model, tokenizer = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    prompts, right, solved = [], [], []
    for number, size in enumerate([4, 5, 7, 8, 12, 16, 20, 24, 31, 32]):
        task, rows = graphs(size, 60, seed=number)
        answers = task.solve(rows).answer
        kept = torch.cat([(answers == verdict).nonzero()[:10, 0] for verdict in (0, 1)])
        assert len(kept) == 20
        prompts += texts(task, rows[kept])
        right += [task.render_target(each) for each in answers[kept]]
        solved += [each.text for each in ask(witness_for(task, family="transformer-cot"), rows[kept])]
    assert len(prompts) == 200
    assert right.count("YES") == 100
    written: list[str] = []
    for low in range(0, 200, 50):
        written += generated(model, tokenizer, prompts[low : low + 50])
    assert [text.split()[-1] for text in written] == right == solved


def test_a_prompt_is_continued_as_alone_beside_longer_ones(tmp_path: Path) -> None:
    witness = witness_for(
        separatrix.task("is-tree", n=8, form="cot"), family="transformer-cot", variant="every n"
    )
    model, tokenizer = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    prompts = [text for n in (4, 8, 6) for text in texts(*graphs(n, 2, seed=n))]
    together = generated(model, tokenizer, prompts)
    assert together == [generated(model, tokenizer, [prompt])[0] for prompt in prompts]
    assert together == generated(model, tokenizer, prompts, use_cache=False)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("index-lookup", {"n": 6, "alphabet": 4}),
        ("counting", {"n": 6}),
        ("is-tree", {"n": 5, "form": "retrieval", "trace": "full", "graphs": "uniform"}),
    ],
)
def test_searches_are_run_while_it_writes(name: str, parameters: dict[str, Any], tmp_path: Path) -> None:
    task = separatrix.task(name, **parameters)
    witness = witness_for(task, family="linear-rnn+retrieval")
    assert witness.script is not None
    model, tokenizer = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    rows = task.sample(4, seed=1).inputs
    prompts = [" ".join(map(witness.script.vocabulary.word, witness.script.prompt(row))) for row in rows]
    words = [
        text[len(prompt) :].split()
        for prompt, text in zip(prompts, generated(model, tokenizer, prompts), strict=True)
    ]
    solutions = ask(witness, rows)
    assert all(each.right for each in solutions)
    assert [tuple(each) for each in words] == [each.words for each in solutions]
    for prompt, text in zip(prompts, generated(model, tokenizer, prompts, num_beams=3), strict=True):
        # Beams may choose otherwise; what searches return is not theirs to choose.
        given, tokens = tokenizer(prompt)["input_ids"], tokenizer(text)["input_ids"]
        watch = SearchWatch(witness.script, [given], end=model.config.padding_token)
        for place in range(len(given), len(tokens)):
            (following,) = watch.next(torch.tensor([tokens[len(given) : place]]))
            assert following in (FREE, tokens[place])
    with pytest.raises(InvalidInput, match="writes with its cache"):
        generated(model, tokenizer, prompts, use_cache=False)


@pytest.mark.parametrize("name", CAUSAL)
def test_trained_models_come_back(name: str, tmp_path: Path) -> None:
    task, rows = graphs(6, 4, seed=1)
    population = trained(name, task)
    member = population.member(1)
    model, _ = loaded(save_pretrained_folder(member, tmp_path / "folder", task=task))
    given = population.alone(1).state_dict()
    found = model.model.state_dict()
    assert found.keys() == given.keys()
    assert all(found[key].numpy().tobytes() == given[key].numpy().tobytes() for key in given)
    ids, mask = rows[:, : task.prompt], torch.ones(4, task.prompt, dtype=torch.int64)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, member.forward(ids))
        stepped = model(ids, use_cache=True)
        torch.testing.assert_close(stepped.logits, member.forward(ids), rtol=1e-4, atol=1e-5)
        further = model(rows[:, task.prompt : task.prompt + 1], past_key_values=stepped.past_key_values)
        whole = member.forward(rows[:, : task.prompt + 1])[:, -1:]
        torch.testing.assert_close(further.logits, whole, rtol=1e-4, atol=1e-5)
    with quietly(require_transformers()):
        options = {"attention_mask": mask, "eos_token_id": None}
        carried = model.generate(ids, **options)
        assert torch.equal(carried, model.generate(ids, use_cache=False, **options))
        # Two rows with padding before them, between two that begin at once.
        shifted = torch.full((4, task.prompt + 2), task.vocabulary.size - 1)
        shifted[::2, : task.prompt], shifted[::2, task.prompt :] = ids[::2], ids[::2, :2]
        shifted[1::2, 2:] = ids[1::2]
        hidden = {**options, "attention_mask": (shifted != task.vocabulary.size - 1).long()}
        for use_cache in (False, True):
            scores = model(shifted, attention_mask=hidden["attention_mask"], use_cache=use_cache).logits
            right = member.forward(ids)[1::2]
            torch.testing.assert_close(scores[1::2, 2:], right, rtol=1e-4, atol=1e-5)
        beside = model.generate(shifted, max_new_tokens=6, **hidden)
        assert torch.equal(beside[1::2, 2:], carried[1::2, : task.prompt + 6])
        assert torch.equal(beside, model.generate(shifted, max_new_tokens=6, use_cache=False, **hidden))
        beams = model.generate(ids, num_beams=3, **options)
        assert torch.equal(beams, model.generate(ids, num_beams=3, use_cache=False, **options))
    assert carried.shape[1] == task.prompt + 2 * task.n


@pytest.mark.parametrize(
    ("name", "parameters", "family"),
    [
        ("index-lookup", {"n": 16, "alphabet": 8}, "transformer-1"),
        ("index-lookup", {"n": 8, "alphabet": 4}, "hybrid"),
        ("associative-recall", {"n": 6}, "rnn"),
        ("dyck", {"n": 8}, "rnn"),
        ("turing", {"n": 4}, "linear-rnn-cot"),
    ],
)
def test_witnesses_score_as_they_did(
    name: str, parameters: dict[str, int], family: str, tmp_path: Path
) -> None:
    task = separatrix.task(name, **parameters)
    witness = witness_for(task, family=family)
    model, _ = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    assert isinstance(task.input_space, Tokens)
    words = task.input_space.size - (task.input_space.pad is not None)
    rows = torch.randint(0, words, (6, task.length), generator=torch.Generator().manual_seed(1))
    assert model.dtype == torch.float64
    assert torch.equal(model(rows).logits, witness.model.forward(rows))
    torch.testing.assert_close(
        model(rows, use_cache=True).logits, witness.model.forward(rows), rtol=1e-9, atol=1e-9
    )


def test_padding_behind_a_row_changes_nothing_before_it(tmp_path: Path) -> None:
    task = separatrix.task("dyck", n=8)
    witness = witness_for(task, family="rnn")
    model, tokenizer = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    given = tokenizer(["([)]", "[]()[]()"], return_tensors="pt", padding=True, padding_side="right")
    assert given.input_ids[0, -1] == tokenizer.pad_token_id == 4
    alone = model(given.input_ids[:1, :4]).logits
    assert torch.equal(model(**given).logits[:1, :4], alone)
    with pytest.raises(InvalidInput, match="padding_side='left'"):
        model(**given, use_cache=True)


def test_answers_that_are_words_are_written(tmp_path: Path) -> None:
    task = separatrix.task("index-lookup", n=16, alphabet=8)
    model, tokenizer = loaded(
        save_pretrained_folder(witness_for(task, family="transformer-1"), tmp_path / "folder")
    )
    batch = task.sample(6, seed=2)
    prompts = [task.render(row) for row in batch.inputs]
    answers = [task.render_target(each) for each in batch.labels.answer]
    assert generated(model, tokenizer, prompts) == [
        f"{prompt} {answer}" for prompt, answer in zip(prompts, answers, strict=True)
    ]


def test_answers_that_are_no_words_are_labels(tmp_path: Path) -> None:
    task = separatrix.task("dyck", n=8)
    witness = witness_for(task, family="transformer-3")
    model, tokenizer = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    given = tokenizer("([)][]()", return_tensors="pt")
    assert tokenizer.decode(given.input_ids[0]) == "([)][]()"
    verdict = int(model(**given).logits[0, -1].argmax())
    row = task.parse("([)][]()")
    assert model.config.id2label[verdict] == task.render_target(task.solve(row.unsqueeze(0)).answer[0])
    with pytest.raises(InvalidInput, match=r"answers to dyck are no words.*config\.id2label"):
        model.generate(**given)


def test_bytes_go_in_and_out(tmp_path: Path) -> None:
    task = separatrix.task("phone-book", n=4)
    _, tokenizer = loaded(save_pretrained_folder(trained("lstm", task).member(0), tmp_path / "f", task=task))
    row = task.sample(1, seed=1).inputs[0]
    text = task.render(row)
    assert tokenizer(text)["input_ids"] == list(text.encode())
    assert tokenizer.decode(tokenizer("héé\n\t~ zwei  ")["input_ids"]) == "héé\n\t~ zwei  "


def test_our_own_reader_loads_them(tmp_path: Path) -> None:
    """`probe` and the reader of other people's folders take ours as any other."""
    task, rows = graphs(5, 2, seed=5)
    folder = save_pretrained_folder(witness_for(task, family="transformer-cot"), tmp_path / "folder")
    reader = load_causal_lm(folder)
    prompts = texts(task, rows)
    found = reader.complete(prompts, most_tokens=10, stop="!")
    right = [task.render_target(each) for each in task.solve(rows).answer]
    assert [text.split()[-1] for text in found] == right
    assert reader.context == task.length + 1
    with pytest.raises(InvalidInput, match=r"has no tokens for 'Who is Maeve\?', so its model cannot"):
        reader.complete(["Who is Maeve?"], most_tokens=2, stop="!")


def test_the_record_is_checked(tmp_path: Path) -> None:
    task, _ = graphs(4, 1, seed=1)
    folder = save_pretrained_folder(witness_for(task, family="transformer-cot"), tmp_path / "folder")
    transformers = require_transformers()
    register_auto()
    path = folder / "config.json"
    good = json.loads(path.read_text())
    assert "auto_map" not in good
    assert transformers.AutoConfig.from_pretrained(str(folder)).record().task.name == "is-tree"

    def refused(change: dict[str, Any], kind: type[Exception], match: str) -> None:
        path.write_text(json.dumps({**good, "separatrix": {**good["separatrix"], **change}}))
        with pytest.raises(kind, match=match):
            transformers.AutoConfig.from_pretrained(str(folder))

    refused({"version": 99}, InvalidFile, "version|newer")
    refused({"schema": "other"}, InvalidFile, "separatrix.hub")
    refused({"extra": 1}, InvalidFile, "extra")
    refused({"witness": None}, InvalidFile, "a witness or a trained model")
    own = {"name": "os:system", "params": {}}
    refused({"witness": None, "tensors": [], "model": own}, InvalidFile, "code of its own")
    huge = [{"name": "a", "dtype": "float64", "shape": [1 << 40]}]
    refused({"tensors": huge}, InvalidFile, "at most")


def test_other_weights_are_refused(tmp_path: Path) -> None:
    task, rows = graphs(4, 1, seed=1)
    folder = save_pretrained_folder(witness_for(task, family="transformer-cot"), tmp_path / "folder")
    model, _ = loaded(folder)
    next(model.model.parameters()).data += 1
    with pytest.raises(InvalidFile, match="not the weights of this witness"):
        model(rows[:, : task.prompt])
    model, _ = loaded(folder)
    model.float()
    with pytest.raises(InvalidInput, match=r"float64.*dtype='auto'"):
        model(rows[:, : task.prompt])


def test_wrong_use(tmp_path: Path) -> None:
    task, rows = graphs(4, 2, seed=1)
    population = trained("transformer", task)
    assert isinstance(population, CausalPopulation)
    place = tmp_path / "folder"
    with pytest.raises(InvalidInput, match=r"has 2 members.*population\.member"):
        save_pretrained_folder(population, place, task=task)
    with pytest.raises(InvalidInput, match="name the task"):
        save_pretrained_folder(population.alone(0), place)
    with pytest.raises(InvalidInput, match="was made for"):
        save_pretrained_folder(population.alone(0), place, task=separatrix.task("dyck", n=8))
    match2 = separatrix.task("match2", n=4)
    with pytest.raises(InvalidInput, match=r"all of its input at once.*ONNX"):
        save_pretrained_folder(witness_for(match2), place)
    with pytest.raises(InvalidInput, match=r"does not read from left to right.*ONNX"):
        save_pretrained_folder(trained("fnn", task).member(0), place, task=task)
    with pytest.raises(InvalidInput, match=r"real numbers.*ONNX"):
        save_pretrained_folder(witness_for(separatrix.task("nearest-neighbour", n=4)), place)
    assert not place.exists()
    model, tokenizer = loaded(save_pretrained_folder(population.alone(0), place, task=task))
    ids = rows[:, : task.prompt]
    with pytest.raises(InvalidInput, match="begins with padding"):
        model(torch.full_like(ids, task.vocabulary.size - 1))
    with pytest.raises(InvalidInput, match="padding on the left"):
        model(ids, attention_mask=torch.tensor([[1, 0, *[1] * (task.prompt - 2)]] * 2))
    with pytest.raises(InvalidInput, match="at most 17 tokens; got 20"):
        model(ids.repeat(1, 2))
    with pytest.raises(InvalidInput, match=r"Tokens run from 0 to 13; got 99"):
        model(torch.full_like(ids, 99))
    # The tokenizers of transformers raise this class itself, and no kind of it.
    with pytest.raises(Exception, match=r"^WordLevel error: Missing \[UNK\] token from the") as unknown:
        tokenizer("<s> 1 ~ 9999")
    assert type(unknown.value) is Exception


def test_fixed_point_is_kept(tmp_path: Path) -> None:
    task = separatrix.task("index-lookup", n=8, alphabet=4)
    witness = witness_for(task, family="transformer-1", choices=Choices(system=system_named("float32")))
    model, _ = loaded(save_pretrained_folder(witness, tmp_path / "folder"))
    rows = task.sample(4, seed=1).inputs
    assert torch.equal(model(rows).logits, witness.model.forward(rows))
