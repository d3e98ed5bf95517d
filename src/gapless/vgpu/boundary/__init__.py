"""The device in another process than the program."""
