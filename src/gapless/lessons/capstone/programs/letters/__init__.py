"""The next letter of short texts, and texts made of letters."""
