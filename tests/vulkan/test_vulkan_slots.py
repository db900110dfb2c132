"""Slots in files on a Vulkan device: whole, and shared with the CPU."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from golem_host.devices.vulkan.physical import PhysicalDevice
from golem_host.testing.tiny import tiny_gguf
from test_routes_slots import OTHER, PROMPT, error_of, serving, text_of


@pytest.mark.parametrize("flags", [{}, {"vulkan-layers": "1"}], ids=["whole", "split"])
def test_a_restored_slot_answers_as_before_the_restart(
    physical: PhysicalDevice, tmp_path: Path, flags: dict[str, str]
) -> None:
    """Of windows that the prompt has gone round; on the CPU the file is refused."""
    file, prompt = tiny_gguf(tmp_path / "tiny.gguf", "gemma3", context=2048), PROMPT * 5

    async def scenario() -> None:
        async with serving(tmp_path, file, device="vulkan", **flags) as before:
            await before.draw(prompt, 0)
            assert (await before.done(0, "save", filename="a"))["n_saved"] == len(prompt)
        async with serving(tmp_path, file, device="vulkan", **flags) as after:
            await after.done(1, "restore", filename="a")
            longer = [*prompt, *OTHER]
            here, fresh = await after.draw(longer), await after.draw(longer, cache_prompt=False)
            assert here["timings"]["cache_n"] == len(prompt) and text_of(here) == text_of(fresh)
        async with serving(tmp_path, file) as other:
            assert "another arithmetic" in error_of(await other.act(0, "restore", filename="a"))

    asyncio.run(scenario())
