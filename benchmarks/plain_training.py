"""The plain way to train, for comparison: one model at a time, an ordinary module, an ordinary loop."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from separatrix.tasks.interface import Task, Tokens


class PlainTransformer(nn.Module):
    """GPT-2's block from torch's own layers: what one would write in a notebook."""

    def __init__(self, task: Task, *, layers: int, width: int, heads: int) -> None:
        super().__init__()
        space = task.input_space
        assert isinstance(space, Tokens)
        self.heads = heads
        self.tokens = nn.Embedding(space.size, width)
        self.places = nn.Embedding(task.length, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "first": nn.LayerNorm(width),
                    "inward": nn.Linear(width, 3 * width),
                    "outward": nn.Linear(width, width),
                    "second": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.readout = nn.Linear(width, task.target_space.size, bias=False)  # type: ignore[union-attr]
        for values in (self.tokens.weight, self.places.weight):
            nn.init.normal_(values, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        rows, length = tokens.shape
        x = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            assert isinstance(block, nn.ModuleDict)
            parts = block["inward"](block["first"](x)).view(rows, length, 3, self.heads, -1)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + block["outward"](mixed.transpose(1, 2).reshape(x.shape))
            x = x + block["down"](F.gelu(block["up"](block["second"](x)), approximate="tanh"))
        return self.readout(self.norm(x))  # type: ignore[no-any-return]


def plain_loop(task: Task, model: nn.Module, *, lr: float, batch: int, steps: int, bfloat16: bool) -> None:
    """So many steps of Adam on fresh examples; the loss is read at the labelled positions."""
    device = next(model.parameters()).device
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(steps):
        drawn = task.sample(batch, seed=0, start=step * batch, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bfloat16):
            outputs = model(drawn.inputs)
        loss = F.cross_entropy(outputs[drawn.mask].float(), drawn.targets[drawn.mask])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
