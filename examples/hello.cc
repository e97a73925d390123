/// The smallest program: `mpirun -n 4 hello`.
#include <tutti/tutti.h>

#include <cstdio>
#include <string_view>
#include <vector>

int main(int argc, char** argv) try {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("tutti %s\n", tutti::version());
    return 0;
  }
  const auto kv = tutti::KVStore::create("dist_sync_mpi");
  if (argc > 1) {
    // All ranks find the same, and one says it.
    if (kv->rank() == 0) std::fprintf(stderr, "hello takes no options: mpirun -n 4 hello\n");
    return 2;
  }

  // All ranks begin with rank 0's weights.
  std::vector<float> weight(4, kv->rank() == 0 ? 0.5F : 0.0F);
  const tutti::Tensor w(weight.data(), {4}, tutti::DType::f32);
  kv->broadcast("w", w, /*root_rank=*/0).wait();

  // The gradients of all ranks are summed while the program may do something else.
  std::vector<float> gradient(4, 1.0F);
  const tutti::Tensor g(gradient.data(), {4}, tutti::DType::f32);
  const tutti::Pending pending = kv->pushpull("g", g, g);
  pending.wait();

  std::printf("rank %d of %d: weight %g, gradient %g\n", kv->rank(), kv->num_workers(), weight[0],
              gradient[0]);
  return 0;
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "hello: %s\n", error.what());
  return 1;
}
