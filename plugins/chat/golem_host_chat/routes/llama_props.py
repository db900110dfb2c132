"""llama-server's `/props`: what the server is, and how it draws when a request says nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from litestar import Request

from golem_host.errors import NotSupported
from golem_host.weights.gguf import open_gguf
from golem_host_chat.routes.generation_settings import generation_settings
from golem_host_chat.routes.llama_models import asked_model
from golem_host_chat.templates import ChatTemplate, TemplateError

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.text.tokenizer import Tokenizer
    from golem_host_chat.model import ChatModel
    from golem_host_chat.runtime import ChatRuntime
    from golem_host_chat.sampling_params import SamplingParams


async def props(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """The properties of the query's `model`. One that is not in memory stays out of it: its file is read. (A derived
    one is loaded: its layer is known over a loaded model.)
    """
    model = asked_model(request, host)
    runtime = cast("ChatRuntime | None", host.registry.loaded(model))
    # On threads: a template is tried out when it is first asked what it can do.
    if runtime is not None:
        told = await asyncio.to_thread(_of_runtime, runtime)
    elif model.base is not None:
        async with host.registry.use(model) as used:
            told = await asyncio.to_thread(_of_runtime, cast("ChatRuntime", used))
    else:
        told = await asyncio.to_thread(_of_file, cast("ChatModel", model), host)
    return {
        **told,
        "model_alias": model.name,
        "model_ftype": model.quantization,
        "model_path": str(model.path.resolve()),
        "modalities": {"vision": False, "video": False, "audio": False},
        "endpoint_slots": host.settings["slots"],
        "endpoint_props": False,
        "endpoint_metrics": host.settings["metrics"],
        "ui": False,
        "ui_settings": {},
        "build_info": f"golem-host {host.version}",
        "is_sleeping": runtime is None,
        "cors_proxy_enabled": False,
    }


async def change_props(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """Nothing can be changed."""
    raise NotSupported("This server does not support changing global properties.")


def _of_runtime(runtime: ChatRuntime) -> dict[str, Any]:
    spoken = _spoken(runtime.tokenizer, runtime.template)
    return {**spoken, **_slots(runtime.slots, runtime.context, runtime.sampling, runtime.max_tokens)}


def _of_file(model: ChatModel, host: Host) -> dict[str, Any]:
    from golem_host_chat.runtime import template_of, text_rules

    slots, max_tokens = host.settings["parallel"], host.settings["max-tokens"]
    with open_gguf(model.path) as gguf:
        tokenizer, sampling = text_rules(gguf)
        template = None
        with suppress(TemplateError):
            template = template_of(gguf, tokenizer, model.name)
        spoken = _spoken(tokenizer, template)
    return {**spoken, **_slots(slots, model.slot_context(host.settings), sampling, max_tokens)}


def _slots(slots: int, context: int, sampling: SamplingParams, max_tokens: int | None) -> dict[str, Any]:
    params = generation_settings(sampling, max_tokens=max_tokens)
    return {"total_slots": slots, "default_generation_settings": {"params": params, "n_ctx": context}}


def _spoken(tokenizer: Tokenizer, template: ChatTemplate | None) -> dict[str, Any]:
    vocab = tokenizer.vocab
    return {
        "chat_template": "" if template is None else template.source,
        "chat_template_caps": {} if template is None else _abilities(template),
        "bos_token": "" if vocab.bos is None else vocab.text(vocab.bos),
        "eos_token": "" if vocab.eos is None else vocab.text(vocab.eos),
    }


def _abilities(template: ChatTemplate) -> dict[str, bool]:
    """What the template can do, under llama-server's names."""
    return {
        "supports_string_content": not template.requires_typed_content,
        "supports_typed_content": template.requires_typed_content,
        "supports_tools": template.supports_tools,
        "supports_tool_calls": template.supports_tool_calls,
        "supports_system_role": template.supports_system,
        "supports_object_arguments": template.takes_object_arguments,
    }
