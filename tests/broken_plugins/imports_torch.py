"""Imports torch at the top."""

import torch

from broken_plugins.spelling import hooks

globals().update(hooks("imports_torch"))
assert torch
