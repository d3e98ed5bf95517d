"""How long a kernel or a collective takes on a card."""
