#include "kvstore/methods.h"

#include <catch2/catch.hpp>

#include "../errors.h"

using namespace tutti;

static std::string refusal(Method method) {
  const Traits collective{.type = "dist_sync_mpi",
                          .methods = {Method::pushpull, Method::broadcast}};
  return text_of(ErrorCode::unsupported, [&] { require(collective, method); });
}

TEST_CASE("a method that the type lacks is refused with what to call instead") {
  CHECK(refusal(Method::init) ==
        "init is not supported by store type 'dist_sync_mpi'; instead, call broadcast(key, values, "
        "root_rank): every rank gets the root's value");
  CHECK_THAT(refusal(Method::push), Catch::StartsWith("push is") && Catch::Contains("pushpull"));
  CHECK_THAT(refusal(Method::pull), Catch::StartsWith("pull is") && Catch::Contains("pushpull") &&
                                        Catch::Contains("broadcast"));
  CHECK_THAT(refusal(Method::row_sparse_pull),
             Catch::StartsWith("row_sparse_pull is") && Catch::Contains("dense"));
  CHECK_THAT(refusal(Method::set_optimizer),
             Catch::StartsWith("set_optimizer is") && Catch::Contains("after pushpull"));
  CHECK_THAT(refusal(Method::save_optimizer_states),
             Catch::StartsWith("save_optimizer_states is") && Catch::Contains("on rank 0"));
  CHECK_THAT(refusal(Method::load_optimizer_states),
             Catch::StartsWith("load_optimizer_states is") && Catch::Contains("broadcast it"));
  CHECK_THAT(refusal(Method::set_gradient_compression),
             Catch::StartsWith("set_gradient_compression is") && Catch::Contains("16-bit"));
  CHECK_THAT(refusal(Method::num_dead_node),
             Catch::StartsWith("num_dead_node is") && Catch::Contains("peer_lost"));
}

TEST_CASE("a method that the type offers is let through") {
  require({.type = "t", .methods = {Method::init}}, Method::init);
}
