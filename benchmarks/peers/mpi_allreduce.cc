// Measures the allreduce of an MPI with which tutti is not built. compare.py compiles this against
// that MPI's headers. Rows, checks and options are allreduce_bench's.
#include "benchmarks/allreduce/program.h"
#include "tutti/error.h"

int main(int argc, char** argv) {
  tutti::bench::Settings settings;
  settings.impls = {"mpi"};
  return tutti::bench::run_program(
      argc, argv, settings, [](const auto&, const auto&) -> tutti::bench::Contestants {
        throw tutti::Error(tutti::ErrorCode::unsupported, "this program measures MPI alone");
      });
}
