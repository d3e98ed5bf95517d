"""Process groups, collectives and their time, DDP."""
