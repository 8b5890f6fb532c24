"""Launches on Apple GPUs, through PyTorch's compiler of Metal shaders.

None of this has run on Apple's hardware. What can be known without it is tested: launches with a stand-in
for ``torch.mps`` that executes the very text on the computer's CPU, and each refusal by its message. That
PyTorch's compiler takes the text, and what it makes of it, is unverified (see `lowering.emit.metal`).

Tensors are those that PyTorch has on its device ``mps``, with any strides and offset; launches are put on
the queue that PyTorch's own operations are on. Needs PyTorch 2.7 (``torch.mps.compile_shader``) and an Apple
M1 or later; macOS 15 for the exact results that the language promises, since before it a text cannot say
that infinities and NaNs matter.
"""
