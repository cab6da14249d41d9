"""The explorer: a page on this machine in which one types an input and watches what a model does with it."""
