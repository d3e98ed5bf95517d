"""What a person sees and presses, in a real browser: lessons and the formgrader in JupyterLab, and the pages that gapless writes."""
