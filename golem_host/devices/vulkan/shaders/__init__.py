"""Shaders: GLSL, the SPIR-V made of it, and what makes it (`build`)."""
