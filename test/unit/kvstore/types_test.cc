#include "kvstore/types.h"

#include <catch2/catch.hpp>

#include "../errors.h"

using namespace tutti;

static Family family(std::string_view type, LaunchMode mode = LaunchMode::none) {
  return find_store_type(type, mode).family;
}

TEST_CASE("every type string of the contract is known") {
  CHECK(family("dist_sync_mpi") == Family::collective);
  for (const char* type : {"dist", "dist_sync", "dist_async", "dist_sync_device",
                           "dist_device_sync", "dist_async_device", "dist_device_async"}) {
    CHECK(family(type) == Family::parameter_server);
  }
  for (const char* type : {"local", "local_update_cpu", "local_allreduce_cpu"}) {
    CHECK(family(type) == Family::local);
  }
  for (const char* type : {"device", "local_allreduce_device"}) {
    CHECK(family(type) == Family::device);
  }
  CHECK(family("nccl") == Family::nccl);
}

TEST_CASE("type strings are lower-cased, and no part of a string matches") {
  CHECK(find_store_type("Dist_Sync_MPI", LaunchMode::none).name == "dist_sync_mpi");
  for (const char* type : {"", "dist_sync_mpi_device", "loca", "local ", "xdevice"}) {
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { family(type); }),
               Catch::StartsWith("store type '" + std::string(type) + "' is not known"));
  }
}

TEST_CASE("an unknown type string is refused with the nearest and with all known ones") {
  const std::string text = text_of(ErrorCode::invalid_argument, [] { family("Dist_Snyc_MPI"); });
  CHECK_THAT(text, Catch::StartsWith("store type 'Dist_Snyc_MPI' is not known, did you mean "
                                     "'dist_sync_mpi'? (known: dist_sync_mpi, dist, dist_sync,"));
  CHECK_THAT(text, Catch::EndsWith("local_allreduce_device, nccl)"));
}

TEST_CASE("under the launcher's mode mpi the synchronous dist names mean dist_sync_mpi") {
  for (const char* type : {"dist", "DIST_SYNC", "dist_device_sync", "dist_sync_device"}) {
    const StoreType found = find_store_type(type, LaunchMode::mpi);
    CHECK(found.name == "dist_sync_mpi");
    CHECK(found.family == Family::collective);
    CHECK(family(type, LaunchMode::ps) == Family::parameter_server);
  }
  CHECK(find_store_type("local", LaunchMode::mpi).name == "local");
}

TEST_CASE("under the launcher's mode mpi the asynchronous names are unsupported") {
  for (const char* type : {"dist_async", "dist_async_device", "dist_device_async"}) {
    CHECK_THAT(
        text_of(ErrorCode::unsupported, [&] { family(type, LaunchMode::mpi); }),
        Catch::StartsWith("store type '" + std::string(type) + "' needs a parameter server") &&
            Catch::Contains("--mode ps"));
  }
}

TEST_CASE("under the launcher's mode ps dist_sync_mpi is unsupported, for each would work alone") {
  CHECK_THAT(text_of(ErrorCode::unsupported, [] { family("dist_sync_mpi", LaunchMode::ps); }),
             Catch::StartsWith("store type 'dist_sync_mpi' needs the processes of one MPI job") &&
                 Catch::Contains("--mode mpi, or ask for 'dist_sync'"));
}
