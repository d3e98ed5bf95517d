"""A tensor of the device, and one call of an operator."""
