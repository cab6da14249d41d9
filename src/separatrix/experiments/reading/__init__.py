"""Reading as W tests it: language models from disk, asked amid more and more that does not matter."""
