"""The capstone's programs, a folder each: the slow program's files, and what is known of them."""
