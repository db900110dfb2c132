"""What tests of the host and of plugins are made of. Public: names change as those of `golem_host.api` do.

- `conformance`: the checks that every plugin passes (`PluginConformance`, `Sample`); `pytest --golem-plugin NAME`.
- `inprocess`: a host and a client in one event loop, without a socket (`running`, `settings_of`, `client_of`).
- `command`: the real `golem-host` on a real port (`Command`).
- `fakes`: plugins and models without mathematics (`plugin_set`, `RoutesPlugin`, `FakePlugin`, `FakeModel`, `Script`).
- `distributions`: installed distributions made of a few files (`write_distribution`).
- Tiny checkpoints with random weights, of the structure of real ones: `tiny` (`tiny_gguf`: chat models of every family,
  made of the other `tiny_...` modules), `tiny_bert` and `tiny_nomic_bert` (embedding models and rerankers),
  `tiny_laya`, `tiny_stt`, `tiny_krea2`.
- Files byte by byte, for hostile ones: `raw_gguf` (`gguf_bytes`), `safetensors` (`safetensors_bytes`), `random_blocks`
  (quantized weights), `charsmap`.

pytest itself is needed by `conformance` only.
"""
