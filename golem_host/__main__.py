"""`python -m golem_host` is `golem-host`."""

from golem_host.cli import entry

if __name__ == "__main__":
    entry()
