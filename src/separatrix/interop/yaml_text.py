"""YAML as it is written here: objects, lists and plain values, every text in double quotes.

What a text says can then never be read as anything but a text: no tag, no anchor, no `no` that turns into a
truth value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["yaml_text"]


def yaml_text(value: Mapping[str, object]) -> str:
    """A mapping as a YAML document in block style, without markers before or behind it."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Mapping[str, object] | Sequence[object]) -> list[str]:
    lines: list[str] = []
    items = value.items() if isinstance(value, Mapping) else (("-", item) for item in value)
    for name, item in items:
        head = "-" if name == "-" and not isinstance(value, Mapping) else f"{_key(name)}:"
        if isinstance(item, Mapping | list | tuple) and item:
            inner = _lines(item)
            if head == "-":
                lines += [f"- {inner[0]}", *(f"  {line}" for line in inner[1:])]
            else:
                lines += [head, *(f"  {line}" for line in inner)]
        else:
            lines.append(f"{head} {_scalar(item)}")
    return lines


def _key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    is_plain = plain.isascii() and plain.isalnum() and plain[:1].isalpha() and name[0] not in "-_"
    return name if is_plain and name.lower() not in _READ_AS_VALUES else _scalar(name)


_READ_AS_VALUES = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    assert isinstance(value, str)
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter == "\n":
        return "\\n"
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
