"""The ``gapless`` command, a file a subcommand: each adds itself to the command line by ``add_parser``."""
