"""``gapless audit``: anybody's training script, run unchanged for a few steps, and what makes it wait."""
