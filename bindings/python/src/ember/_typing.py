"""Names of annotations that Python does not know at run time, or only of late, or that need numpy: there they have stand-ins."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    from typing_extensions import Buffer, Self, Unpack

    Matrix = numpy.typing.NDArray[numpy.float32]
    Ints = memoryview[int]
    Floats = memoryview[float]
else:
    Buffer = Matrix = Any
    Ints = Floats = memoryview
    if sys.version_info >= (3, 11):
        from typing import Self, Unpack
    else:
        Self = Any
        Unpack = list

__all__ = ["Buffer", "Floats", "Ints", "Matrix", "Self", "Unpack"]
