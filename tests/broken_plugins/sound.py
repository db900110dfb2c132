"""Nothing is wrong with it."""

from broken_plugins.spelling import hooks

globals().update(hooks("sound"))
