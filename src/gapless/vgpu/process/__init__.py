"""What this process has and where it is: its card, the line that runs, forks, imports to come."""
