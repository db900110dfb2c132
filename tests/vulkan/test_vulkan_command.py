"""`golem-host devices`, and devices that `--device` cannot have: the command as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from golem_host.devices.vulkan.physical import PhysicalDevice, gpus

TORCH = (
    "import sys\nfrom golem_host.cli import main\ncode = main()\nsys.exit('torch' if 'torch' in sys.modules else code)"
)


def _run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")}
    return subprocess.run(
        [sys.executable, "-P", "-c", TORCH, *words],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


NOWHERE = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}


def test_devices_lists_the_processor_and_the_gpus(physical: PhysicalDevice) -> None:
    done = _run("devices")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split("  ")[0] == "DEVICE"
    assert lines[1].startswith("cpu ")
    first = next(number for number, line in enumerate(lines) if line.startswith("vulkan:0 "))
    assert physical.name in lines[first]
    assert lines[first].endswith("nothing")
    assert physical.uuid in lines[first + 2]
    assert max(map(len, lines)) <= 120


def test_devices_as_json(physical: PhysicalDevice) -> None:
    done = _run("devices", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    cpu, first, *others = listed["devices"]
    assert listed["vulkan_problem"] is None
    assert (cpu["device"], cpu["type"], cpu["uuid"], cpu["missing"]) == ("cpu", "cpu", None, [])
    assert 0 < cpu["free_bytes"] <= cpu["memory_bytes"]
    assert (first["device"], first["name"], first["uuid"], first["missing"]) == (
        "vulkan:0",
        physical.name,
        physical.uuid,
        [],
    )
    assert 0 < first["free_bytes"] <= first["memory_bytes"]
    assert len(others) == len(gpus()) - 1


def test_without_a_driver_the_processor_is_listed_and_one_line_says_why(physical: PhysicalDevice) -> None:
    done = _run("devices", **NOWHERE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("DEVICE ") and lines[1].startswith("cpu ")
    assert not any(line.startswith("vulkan") for line in lines)
    assert lines[-1].startswith("no Vulkan device: Vulkan finds no")
    problem = json.loads(_run("devices", "--json", **NOWHERE).stdout)["vulkan_problem"]
    assert f"no Vulkan device: {problem}" == lines[-1]


@pytest.fixture
def serve(physical: PhysicalDevice, tmp_path: Path):
    """Serve a tiny model on a device: what the command says and how it ends."""
    from golem_host.testing.tiny import tiny_gguf

    model = tiny_gguf(tmp_path / "tiny.gguf", "llama")

    def run(device: str, **environment: str) -> subprocess.CompletedProcess[str]:
        words = ("--enable", "chat", "--chat-model", str(model), "--device", device, "--addr", "127.0.0.1:0")
        return _run(*words, **environment)

    return run


@pytest.mark.parametrize(
    ("device", "code", "message"),
    [
        ("vulkan:99", 1, "device vulkan:99: there is no Vulkan device of index 99; there is "),
        ("vulkan:" + "5" * 32, 1, "there is no Vulkan device of UUID " + "5" * 32),
        ("cuda", 2, "flag --device: expected cpu, vulkan, vulkan:INDEX or vulkan:UUID"),
        ("vulkan:-1", 2, "flag --device: expected cpu, vulkan, vulkan:INDEX or vulkan:UUID"),
    ],
)
def test_a_device_that_is_not_there(serve, device: str, code: int, message: str) -> None:
    done = serve(device)
    assert done.returncode == code
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_driver(serve) -> None:
    done = serve("vulkan", **NOWHERE)
    assert done.returncode == 1
    assert done.stderr.startswith("golem-host: device vulkan: Vulkan finds no")
    assert len(done.stderr.splitlines()) == 1
