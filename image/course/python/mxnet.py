"""MXNet 1.9.1 as the course's scripts expect it: operator New, models, and mx.gpu().

It stands before MXNet's package on Python's path, and puts that in its own place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parent / "lib" / "libnew.so"

_path = sys.path[:]
sys.path[:] = [folder for folder in _path if Path(folder).resolve() != HERE]
sys.path.insert(0, str(HERE.parent / "own"))
del sys.modules[__name__]

from course.editions import EDITIONS  # noqa: E402
from course_gpu import Gpu  # noqa: E402
from host import mxnet_package  # noqa: E402

real: Any = mxnet_package.loaded()
sys.path[:] = _path

Base: Any = real.mod.Module


def weights_of(module: Any, name: str, epoch: int, size: int) -> dict[str, Any]:
    """Return a model's weights, first the project's models/EDITION-NAME-EPOCH.params.

    Raises MXNet's error if their shapes are others than those of the model.
    """
    edition = next(e.name for e in EDITIONS.values() if e.size == size)
    folder = Path(os.environ.get("RAI_MODELS_DIR", "/src/models"))
    file = folder / f"{edition}-{name}-{epoch:04}.params"
    usual: dict[str, Any] = module._arg_params
    if not file.exists():
        return usual
    given = {
        key.split(":")[-1]: array for key, array in real.nd.load(str(file)).items()
    }
    if {k: v.shape for k, v in given.items()} != {k: v.shape for k, v in usual.items()}:
        raise real.MXNetError(f"{file}: these are not the weights of {edition} {name}")
    return given


class Module(Base):
    """A module that takes the model of the images' size, and computes on a GPU."""

    _course: tuple[str, int, dict[str, Any]] | None = None
    _gpu: Gpu | None = None

    @staticmethod
    def load(prefix: str, epoch: int, *rest: Any, **options: Any) -> Module:
        """Load a model; bind() takes the one of its name for the images' size."""
        with mxnet_package.quiet():
            module = Base.load(prefix, epoch, *rest, **options)
        module.__class__ = Module  # MXNet's own methods need their class by its name
        module._course = prefix, epoch, options
        found: Module = module
        return found

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        *rest: Any,
        **options: Any,
    ) -> None:
        """Bind; a model of the course for inference only."""
        shape = tuple(data_shapes[0][1])
        if self._course:
            prefix, epoch, loaded = self._course
            sized = Path(prefix).parent / str(shape[-1]) / Path(prefix).name
            if Path(f"{sized}-symbol.json").exists():
                vars(self).update(vars(Module.load(str(sized), epoch, **loaded)))
                self._arg_params = weights_of(self, sized.name, epoch, shape[-1])
                for_training = False
        if self._context[0].device_type == "gpu":
            self._gpu = Gpu(real, LIBRARY, self.symbol, self._arg_params, shape)
            self._data_shapes, self._label_shapes = data_shapes, label_shapes
            self.binded = True
            return
        with mxnet_package.quiet():
            super().bind(data_shapes, label_shapes, for_training, *rest, **options)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs."""
        if self._gpu is None:
            super().forward(data_batch, is_train)
        else:
            self._found = self._gpu.forward(data_batch.data[0].asnumpy())

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last forward()."""
        if self._gpu is None:
            return super().get_outputs(merge_multi_context)
        return [real.nd.array(self._found)]

    def update_metric(self, eval_metric: Any, labels: Any, *rest: Any) -> None:
        """Compare the outputs with the labels."""
        if self._gpu is None:
            super().update_metric(eval_metric, labels, *rest)
        else:
            eval_metric.update(labels, self.get_outputs())


real.mod.Module = real.module.Module = Module
if LIBRARY.exists():
    real.base.check_call(real.base._LIB.MXLoadLib(os.fsencode(LIBRARY), 0))
