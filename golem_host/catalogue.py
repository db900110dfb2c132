"""Models added and taken away while the host runs: derived ones, and files that were fetched or sent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from golem_host.check import identify
from golem_host.config import NamedPath, Settings
from golem_host.derived import DerivedModel
from golem_host.devices.names import resolved
from golem_host.errors import BadRequest, GolemError, NotFound
from golem_host.layer import Layer
from golem_host.manifests import Manifest, ManifestStore
from golem_host.plugins import PluginSet
from golem_host.registry import Model, Registry

log = logging.getLogger("golem_host.models")


class Catalogue:
    """What manifests in the model folder say, beside the models that settings name.

    Made before the registry, which needs `own_models()`; `attach` gives it. Methods run on the event loop, their work
    on files on worker threads.
    """

    def __init__(self, plugins: PluginSet, settings: Settings) -> None:
        self.folder: Path = settings["model-folder"]
        self._plugins = plugins
        self._settings = settings
        self._store = ManifestStore(self.folder / "manifests")
        self._manifests = {manifest.name: manifest for manifest in self._store.all()}
        self._lock = asyncio.Lock()
        """Held while names change."""

    def own_models(self, taken: Sequence[Model]) -> list[Model]:
        """The added models with files of their own whose name is not `taken`; what cannot be served is logged."""
        names = {model.name.casefold() for model in taken}
        models = []
        for manifest in self._manifests.values():
            if manifest.base:
                continue
            try:
                if manifest.name.casefold() in names:
                    raise BadRequest("a setting names another model so")
                models.append(self._model_of(manifest))
            except GolemError as error:
                log.warning("model %s is left out: %s", manifest.name, error)
        return models

    def attach(self, registry: Registry) -> None:
        """Add the derived models to `registry`; what cannot be served is logged."""
        self._registry = registry
        for manifest in self._manifests.values():
            if not manifest.base:
                continue
            try:
                registry.add_derived(self._derived_of(manifest))
            except GolemError as error:
                log.warning("model %s is left out: %s", manifest.name, error)

    def require_free(self, name: str) -> None:
        """Raise BadRequest unless a model may be added under this name."""
        self._free(name)

    async def derive(self, name: str, parent: Model, layer: Layer) -> None:
        """Serve `parent` with `layer` as `name`, in place of the added model of that name.

        Raises BadRequest for a name that is not free and a layer that cannot be honoured, OSError.
        """
        async with self._lock:
            before = self._free(name)
            root = parent.base or parent
            if isinstance(parent, DerivedModel):
                layer = layer.over(parent.layer)
            manifest = Manifest(name, time.time(), base=root.name, parent=parent.name, layer=layer)
            model = await asyncio.to_thread(self._derived_of, manifest)
            await self._keep(manifest, before)
            self._registry.add_derived(model)

    async def add_files(self, name: str, path: Path, files: Sequence[Path], *, changed: bool) -> None:
        """Serve what lies at `path` as `name`, in place of the added model of that name.

        `files`, all in the model folder, go when it is deleted. Unless `changed`, a model of the same files stays as it
        is, in memory or not. Raises BadRequest for a name that is not free and for what no enabled plugin serves,
        OSError.
        """
        async with self._lock:
            before = self._free(name)
            setting = await asyncio.to_thread(self._setting_for, path)
            inside = tuple(str(file.relative_to(self.folder)) for file in files)
            manifest = Manifest(
                name, time.time(), setting=setting, path=str(path.relative_to(self.folder)), files=inside
            )
            known = self._manifests.get(name)
            if known is not None and (known.path, known.files) == (manifest.path, inside) and not changed:
                return
            model = await asyncio.to_thread(self._model_of, manifest)
            await self._keep(manifest, before)
            self._registry.add(model)

    async def _keep(self, manifest: Manifest, before: Model | None) -> None:
        """Write the manifest, and forget the model whose place it takes."""
        await asyncio.to_thread(self._store.write, manifest)
        old = None if before is None else self._manifests.pop(before.name)
        self._manifests[manifest.name] = manifest
        if before is not None:
            self._registry.remove(before)
        if old is not None:
            await asyncio.to_thread(self._remove_files, old)

    async def delete(self, model: Model) -> None:
        """Take an added model away, with its files unless another uses them. Raises BadRequest, OSError."""
        async with self._lock:
            manifest = self._manifests.get(model.name)
            if manifest is None:
                raise BadRequest(
                    f"model '{model.name}' is named by this host's settings and cannot be deleted by a request",
                    param="model",
                )
            users = [other.name for other in self._manifests.values() if other.base == model.name]
            if users:
                raise BadRequest(f"model '{model.name}' is what {', '.join(sorted(users))} is made from", param="model")
            await asyncio.to_thread(self._store.remove, manifest.name)
            del self._manifests[manifest.name]
            self._registry.remove(model)
            await asyncio.to_thread(self._remove_files, manifest)

    def _free(self, name: str) -> Model | None:
        """The added model that a new one of this name takes the place of."""
        found = self._registry.find(name)
        if found is None:
            return None
        if found.name not in self._manifests:
            raise BadRequest(
                f"model '{found.name}' is named by this host's settings: choose another name", param="model"
            )
        if any(other.base == found.name for other in self._manifests.values()):
            raise BadRequest(f"model '{found.name}' is what others are made from: choose another name", param="model")
        return found

    def _derived_of(self, manifest: Manifest) -> DerivedModel:
        base = self._registry.find(manifest.base, aliases=False)
        if base is None or base.base is not None:
            raise NotFound(f"it is made from '{manifest.base}', which is not served")
        return DerivedModel(manifest.name, base, manifest.layer, parent=manifest.parent, created=manifest.created)

    def _setting_for(self, path: Path) -> str:
        found = identify(path, self._plugins, self._settings)
        for answer in found:
            if not answer.problems and answer.setting:
                return answer.setting
        problems = [problem for answer in found for problem in answer.problems]
        enabled = ", ".join(self._plugins.names)
        raise BadRequest("; ".join(problems) or f"no plugin that is enabled ({enabled}) serves {path.name}")

    def _model_of(self, manifest: Manifest) -> Model:
        """The model as its plugin makes it for a setting that names it alone."""
        spec = next((spec for spec in self._settings.specs if spec.name == manifest.setting), None)
        if spec is None or spec.plugin not in self._plugins.names:
            raise BadRequest(f"no plugin that is enabled has the setting {manifest.setting}")
        named = (NamedPath(manifest.name, self.folder / manifest.path),)
        settings = self._settings.replaced("manifest", **{spec.name: named})
        [models] = self._plugins.ask(spec.plugin, "golem_models", settings=settings)
        model = next(model for model in models if model.name == manifest.name)
        model.device = resolved(model.device)
        return model

    def _remove_files(self, manifest: Manifest) -> None:
        used = {name for other in self._manifests.values() for name in other.files}
        for name in manifest.files:
            if name not in used:
                (self.folder / name).unlink(missing_ok=True)
