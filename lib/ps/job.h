#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "net/secret.h"
#include "ps/messages.h"
#include "ps/registry.h"

namespace tutti::ps {

/// Names and values of environment variables.
using Variables = std::span<const std::pair<std::string, std::string>>;

/// A process's place in a parameter-server job.
struct Job {
  Role role = Role::worker;
  std::string root;        ///< host name or address of the scheduler
  std::uint16_t port = 0;  ///< of the scheduler
  Company company;
  int wanted_rank = -1;
  std::string node_host;                ///< the address to listen at; empty: that of the route
  std::uint64_t big_count = 1'000'000;  ///< elements from which on a value is split
  net::Secret secret{};
  bool has_secret = false;

  /// Reads DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER,
  /// DMLC_RANK, DMLC_NODE_HOST, MXNET_KVSTORE_BIGARRAY_BOUND and TUTTI_JOB_KEY. Throws
  /// `invalid_argument`, naming the variable, for one that is missing or not usable.
  static Job from(Variables variables);

  /// "the scheduler at 10.0.0.1:9000".
  std::string describe_scheduler() const;
};

}  // namespace tutti::ps
