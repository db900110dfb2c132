"""laya's own client of a server that speaks its protocol.

    laya_client.py URL < requests.json

stdin is a JSON list of objects with `state`, `questions` and whatever else `RemoteRouter.predict` takes; stdout the
list of what it gave, or of [code, message] where it raised.
"""

from __future__ import annotations

import json
import sys

from laya.mcp.remote import RemoteError, RemoteRouter

router = RemoteRouter(sys.argv[1])
results = []
for call in json.load(sys.stdin):
    try:
        results.append(router.predict(**call))
    except RemoteError as error:
        results.append([error.code, error.message])
print(json.dumps(results))
