#include <catch2/catch.hpp>

#include "../errors.h"
#include "cuda/facts.h"
#include "cuda/gpu.h"
#include "cuda/nccl_library.h"

using namespace tutti;
using namespace tutti::cuda;

TEST_CASE("without CUDA every way to a GPU says so") {
  CHECK_FALSE(is_built());
  const std::string text =
      "unsupported: this tutti was built without CUDA (meson option cuda); GPUs need it";
  CHECK(error_of([] { list_gpus(); }) == text);
  CHECK(error_of([] { Gpu(0); }) == text);
  CHECK(error_of([] { NcclLibrary(); }) == text);
  CHECK(current_gpu() == std::nullopt);
}

TEST_CASE("without CUDA the facts say that it was built without") {
  REQUIRE(facts().size() == 1);
  CHECK(facts()[0].value == "built without CUDA");
}
