"""Typed decisions: laya models (ModernBERT with a decision head) behind `/v1/systemone`."""
