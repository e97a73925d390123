#include "training/agreement.h"

#include <fmt/format.h>

#include <array>

#include "tutti/error.h"

namespace training {
namespace {

struct Fact {
  std::string_view name;
  double value;
};

}  // namespace

void check_agreement(const Settings& settings, const dataset::Dataset& data, const Worker& worker,
                     Exchange& exchange) {
  const std::array facts{
      Fact{"--num-epochs", static_cast<double>(settings.epochs)},
      Fact{"--batch-size", static_cast<double>(settings.batch_size)},
      Fact{"--lr", settings.lr},
      Fact{"--momentum", settings.momentum},
      Fact{"--seed", static_cast<double>(settings.seed)},
      Fact{"number of weights", static_cast<double>(worker.weight_count())},
      Fact{"number of training images", static_cast<double>(data.train.count())},
      Fact{"number of test images", static_cast<double>(data.test.count())},
  };
  // The facts of all ranks side by side: each rank fills its own places, and the sum holds all of
  // them.
  const auto ranks = static_cast<std::size_t>(exchange.ranks());
  std::vector<double> all(ranks * facts.size());
  double* mine = &all[static_cast<std::size_t>(exchange.rank()) * facts.size()];
  for (const Fact& fact : facts) *mine++ = fact.value;
  exchange.sum("facts", all);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const double theirs = all[rank * facts.size() + i];
      if (theirs == all[i]) continue;
      throw tutti::Error(tutti::ErrorCode::invalid_argument,
                         fmt::format("workers must agree on the {}: rank 0 has {}, rank {} has {}",
                                     facts[i].name, all[i], rank, theirs));
    }
  }
}

}  // namespace training
