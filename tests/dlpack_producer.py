"""A tensor of a library that gives its memory by DLPack alone, in any storage type."""

import ctypes

# Codes of element types: signed and unsigned integers, floats, bfloat16, booleans, 8-bit floats.
CODES = {"i": 0, "u": 1, "f": 2, "bfloat16": 4, "b": 6, "float8_e4m3fn": 10, "float8_e5m2": 12}


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DlTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Produced:
    """An array's memory as a foreign tensor; writes to it are seen in the array."""

    def __init__(self, array, device_type=1):
        self.array = array
        self.device_type = device_type

    def __dlpack__(self, *, stream=None):
        array = self.array
        sizes = ctypes.c_int64 * array.ndim
        code = CODES.get(array.dtype.name, CODES.get(array.dtype.kind))
        # Kept here, so that the capsule needs no deleter.
        self.parts = (
            sizes(*array.shape),
            sizes(*(stride // array.itemsize for stride in array.strides)),
        )
        tensor = DlTensor(
            array.ctypes.data, self.device_type, 0, array.ndim, code, array.itemsize * 8, 1, *self.parts, 0
        )
        self.managed = Managed(tensor, None, None)
        return _new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return self.device_type, 0
