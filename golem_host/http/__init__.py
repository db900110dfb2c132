"""HTTP: bodies, errors, streams, listener policy, request log, and the routes every model kind shares."""
