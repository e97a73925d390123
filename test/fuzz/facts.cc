#include "fuzz/decoders.h"
#include "net/bytes.h"
#include "runtime/agreement.h"

namespace tutti::fuzz {
namespace {

const runtime::Facts facts{{"version", "1"}, {"part_bytes", "auto"}};

/// Compares this rank's options with those that another rank sends.
bool compare(Bytes bytes) {
  const std::string said(net::as_text(bytes));
  return accepted(
             [&] {
               runtime::check_equal(facts, {runtime::pack(facts), said});
               return true;
             },
             {ErrorCode::mismatch})
      .has_value();
}

constexpr Decoder all[] = {{compare}};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  const std::string said = runtime::pack(facts);
  const Bytes bytes = net::as_bytes(said);
  return {{0, {bytes.begin(), bytes.end()}}};
}

}  // namespace tutti::fuzz
