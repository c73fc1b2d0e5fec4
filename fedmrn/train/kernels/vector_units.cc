#include "fedmrn/train/kernels/vector_units.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "hwy/targets.h"
#include "oneapi/dnnl/dnnl.h"

// Needed for SupportedAndGeneratedTargets.
#include "hwy/highway.h"

namespace fedmrn::train {
namespace {

// What others call the same instructions. On CPUs that are not listed oneDNN
// and LibTorch have one kind each.
struct Names {
  std::string_view simd;
  dnnl_cpu_isa_t onednn;
  const char* aten;
};
constexpr Names kNames[] = {
    {"SSSE3", dnnl_cpu_isa_sse41, "default"},
    {"SSE4", dnnl_cpu_isa_sse41, "default"},
    {"AVX2", dnnl_cpu_isa_avx2, "avx2"},
    {"AVX3", dnnl_cpu_isa_avx512_core, "avx512"},
    {"AVX3_DL", dnnl_cpu_isa_avx512_core_vnni, "avx512"},
};

}  // namespace

std::string SimdTarget() {
  // The CPU may have better ones than kernels are compiled for. The best is the
  // lowest bit.
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

std::string VectorUnits() {
  return fmt::format("{} (oneDNN {:#x})", SimdTarget(),
                     static_cast<uint32_t>(dnnl_get_effective_cpu_isa()));
}

Status UseSimdTarget(const std::string& name) {
  std::string all;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) {
      // Not DisableTargets: whoever asks SupportedTargets afterwards would have
      // all targets dispatched to again (Highway 1.0.3).
      hwy::SetSupportedTargetsForTest(target);
      for (const Names& names : kNames) {
        if (names.simd != name) continue;
        // LibTorch looks at its variable when it is opened.
        if (dnnl_set_max_cpu_isa(names.onednn) != dnnl_success ||
            setenv("ATEN_CPU_CAPABILITY", names.aten, 1) != 0) {
          return Error{ErrorCode::kFailed,
                       "oneDNN cannot be kept to " + name + " any more"};
        }
      }
      return Ok();
    }
    all += (all.empty() ? "" : ", ") + std::string(hwy::TargetName(target));
  }
  return Error{ErrorCode::kBadValue,
               "this CPU has no SIMD target " + name + ", but " + all};
}

}  // namespace fedmrn::train
