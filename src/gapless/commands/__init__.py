"""The learner's commands, one a file: each adds itself to the command line by ``add_parser``."""
