// A program that does not catch what ends it.
//
//   uncaught HOW
//
// mismatch   the ranks disagree, and every rank gets tutti's error
// own        so, but the program has a terminate handler of its own
// other      an exception that is none of tutti's
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "tutti/tutti.h"

using namespace tutti;

int main(int /*argc*/, char** argv) {
  const std::string_view how = argv[1];
  if (how == "own") {
    std::set_terminate([] {
      std::fputs("the program's own handler\n", stderr);
      std::_Exit(9);
    });
  }
  const auto store = KVStore::create("dist_sync_mpi");
  if (how == "other") throw std::runtime_error("none of tutti's");
  std::vector<float> values(static_cast<std::size_t>(4 + store->rank()), 1);
  const Tensor tensor(values.data(), {4 + store->rank()}, DType::f32);
  store->pushpull("g", tensor, tensor).wait();
}
