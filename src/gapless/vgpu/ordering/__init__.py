"""What orders work: streams, events, copies under way, pinned memory, races, sync debug mode."""
