"""Plugins with one fault each, by which the conformance suite is tested: it has to find that fault and no other."""
