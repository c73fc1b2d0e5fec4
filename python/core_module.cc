// fedmrn._core: the core as Python sees it.
#include "python/arguments.h"
#include "python/bindings.h"

NB_MODULE(_core, module) {
  using namespace fedmrn::python;
  RegisterFrameError();
  BindFrames(module);
  BindLayout(module);
  BindMasking(module);
  BindAggregator(module);
}
