"""NVIDIA GPUs: devices, machine code, launches. Imported only where a tensor or a kind asks for one."""
