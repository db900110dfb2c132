"""`python -m golem_host` is `golem-host`."""

import sys

from golem_host.cli import main

if __name__ == "__main__":
    sys.exit(main())
