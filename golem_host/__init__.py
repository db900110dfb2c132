"""golem-host: models of many kinds on an ordinary computer, behind the HTTP APIs clients already speak."""
