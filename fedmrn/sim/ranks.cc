#include "fedmrn/sim/ranks.h"

#include <algorithm>
#include <cstdlib>

#include "fedmrn/base/module.h"

namespace fedmrn::sim {

Result<const MpiModule*> LoadMpiModule() {
  static const Result<void*> door =
      OpenModule("libfedmrn_mpi.so", "fedmrn_mpi_module");
  if (door) return reinterpret_cast<const MpiModule* (*)()>(*door)();
  if (door.error().code == ErrorCode::kUnavailable) {
    return Error{ErrorCode::kUnavailable,
                 "this program was built without MPI, which the executor mpi "
                 "needs; install libopenmpi-dev and openmpi-bin and build it "
                 "again, or use --executor threads"};
  }
  return Error{
      ErrorCode::kUnavailable,
      "cannot open MPI, which the executor mpi needs: " + door.error().message +
          "; install libopenmpi3 and openmpi-bin, or use --executor "
          "threads"};
}

int RanksStarted() {
  // Open MPI's mpirun, MPICH's and srun --mpi=pmi2, srun. A batch script has
  // SLURM_NTASKS as well, but is no step.
  for (const char* variable :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* size = std::getenv(variable))
      return std::max(1, std::atoi(size));
  }
  return 1;
}

}  // namespace fedmrn::sim
