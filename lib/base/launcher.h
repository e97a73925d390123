#pragma once
#include <array>
#include <string_view>

namespace tutti::base {

/// The environment variables in which a launcher tells a process how many processes it started, and
/// which one this is. Each launcher sets both.
struct LauncherVariables {
  std::string_view size;
  std::string_view rank;
};

/// Open MPI's come first, because Open MPI sets some of the others', too.
inline constexpr auto launcher_variables = std::to_array<LauncherVariables>({
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},                  // MPICH, Intel MPI, srun --mpi=pmi2
    {"SLURM_NTASKS", "PMIX_RANK"},             // srun --mpi=pmix
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},  // srun; a batch script has no step
    {"WORLD_SIZE", "RANK"},                    // torchrun
});

}  // namespace tutti::base
