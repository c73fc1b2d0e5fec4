#include "fedmrn/cli/main.h"

#include <malloc.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/version.h"
#include "fedmrn/train/kernels/vector_units.h"

namespace fedmrn::cli {
namespace {

// Vectors as long as a model come and go. glibc would give each back to the
// kernel, which then clears the next one page by page.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

}  // namespace

int Main(int argc, char** argv) {
  // A file that grows beyond `ulimit -f` is an error like any other.
  std::signal(SIGXFSZ, SIG_IGN);
  KeepFreedMemory();
  const std::string name =
      argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  // Before anything is computed, whatever the verb.
  if (const char* target = std::getenv("FEDMRN_SIMD"); target && *target) {
    const Status used = train::UseSimdTarget(target);
    if (!used) return Fail(name + ": FEDMRN_SIMD", used.error());
  }
  Program program(
      name.empty() ? "fedmrn" : name, FEDMRN_VERSION, VersionJson,
      "FedMRN: federated learning that uploads one bit per parameter.\n"
      "Every figure about upload is a sum of real frame lengths.");
  const Verb verb = program.verb();
  verb.Footer(
      "Exit codes: 0 done, 1 the work failed (a full disk, a lost connection, "
      "no\ngnuplot), 2 wrong arguments, files or data, 3 stopped by SIGTERM, "
      "130 "
      "stopped by\nCtrl-C. FEDMRN_SIMD=NAME computes with this SIMD target of "
      "the "
      "CPU's.");
  AddRun(verb);
  AddCompare(verb);
  AddReport(verb);
  AddTune(verb);
  AddTheory(verb);
  AddDemo(verb);
  AddData(verb);
  AddPartition(verb);
  AddCodecs(verb);
  AddInspect(verb);
  AddAggregate(verb);
  AddBench(verb);
  const int code = program.Run(argc, argv);
  // What was printed is part of the work, and may not fit the disk.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return code != kExitOk
             ? code
             : Fail(name, {ErrorCode::kFailed,
                           std::string("cannot write its output: ") +
                               std::strerror(errno)});
}

}  // namespace fedmrn::cli
