"""What PyTorch and programs see of the device: ``torch.vgpu``, ``torch.accelerator``, modules, traces."""
