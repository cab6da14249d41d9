"""The drawing of sparse averaging: values above, means below, and a line for every member of a set."""

from __future__ import annotations

from separatrix.atlas.drawings.layout import Sketch
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, text_width
from separatrix.tasks.q_sparse_averaging import QSparseAveraging

__all__ = ["draw_q_sparse_averaging"]


def draw_q_sparse_averaging(canvas: Canvas, example: Example) -> Sketch:
    """Who asks for whom; the means are the answers."""
    task = example.task
    assert isinstance(task, QSparseAveraging)
    values = [" ".join(f"{number:g}" for number in row[: task.d].tolist()) for row in example.row]
    sets = [[int(member) for member in row[task.d :].tolist() if member] for row in example.row]
    means = [answer.strip("()") for answer in example.answers]
    columns = [WIDTH * (place + 0.5) / task.n for place in range(task.n)]
    width = min(WIDTH / task.n - 4, max(text_width(word) for word in (*values, *means)) + 12)
    for x, members in zip(columns, sets, strict=True):
        for member in members:
            canvas.line((x, 138), (columns[member - 1], 45), "edge on")
    for place, (x, value, mean) in enumerate(zip(columns, values, means, strict=True)):
        canvas.text((x, 9), str(place + 1), "small")
        canvas.tile((x, 32), (width, 26), value, "tile")
        canvas.tile((x, 151), (width, 26), mean, "tile answer")
        canvas.text((x, 174), "{" + " ".join(map(str, sets[place])) + "}", "small")
    asked = ", ".join(map(str, sets[0])) or "nothing"
    return Sketch(
        height=184,
        says=f"Every position averages the values that its set names, {task.q} at most; "
        f"position 1 asks for {asked} and gets {means[0]}.",
    )
