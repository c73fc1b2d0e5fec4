// The parts of fedmrn._core. Kernels run without the GIL.
#pragma once

#include <nanobind/nanobind.h>

namespace fedmrn::python {

void BindFrames(nanobind::module_& module);   // Frame, parse, encode, codecs
void BindLayout(nanobind::module_& module);   // Layout
void BindMasking(nanobind::module_& module);  // noise, masks, seeds
void BindAggregator(nanobind::module_& module);

}  // namespace fedmrn::python
