"""How models write thoughts and calls into their answers: one module per notation, chosen from the chat template."""
