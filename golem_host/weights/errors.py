"""Errors of model files."""

from __future__ import annotations

from golem_host.errors import ModelFileError


class GgufError(ModelFileError):
    """A GGUF file that cannot be used; the text begins with the path and says what is wrong with it."""


class SafetensorsError(ModelFileError):
    """A safetensors file that cannot be used; the text begins with the path and says what is wrong with it."""
