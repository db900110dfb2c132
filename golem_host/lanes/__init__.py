"""Batch policies: what a pass is made of and whose turn it is. Nothing here imports torch or knows a model."""
