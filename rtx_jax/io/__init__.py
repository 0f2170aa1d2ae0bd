"""Arrays in files: ``.npy``, ``.npz`` and ``.safetensors``, with every dtype and with sharding.

Other programs read the files. What their format has no place for is kept where they do not look:

===============  ==============================================  ===============================================
format           bfloat16, 8-bit floats, integers below a byte   sharding
===============  ==============================================  ===============================================
``.npy``         one field of unsigned integers, named after     after the data
                 the dtype: ``numpy.load(f)["bfloat16"]``
``.npz``         the same for each array                         in the comment of the array's entry
``.safetensors`` the format's own names (BF16, F8_E4M3, ...)     under ``rtx_jax`` in ``__metadata__``
===============  ==============================================  ===============================================

A file is complete or absent: it is written beside its place under another name, and renamed when it is whole.
"""

from .files import load, save

__all__ = ["load", "save"]
