#include "optimizer/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/names.h"
#include "base/printable.h"
#include "optimizer/rules.h"
#include "tutti/error.h"

namespace tutti::optimizer {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<const Rule> (*make)(const Parameters&);
  double learning_rate;
  std::vector<Known> own;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"sgd", make_sgd, 0.01, {{"momentum", 0, Domain::fraction}, {"nesterov", 0, Domain::flag}}},
      {"nag", make_nag, 0.01, {{"momentum", 0, Domain::fraction}}},
      {"adam",
       make_adam,
       0.001,
       {{"beta1", 0.9, Domain::fraction},
        {"beta2", 0.999, Domain::fraction},
        {"epsilon", 1e-8, Domain::not_negative}}},
      {"adamw",
       make_adamw,
       0.001,
       {{"beta1", 0.9, Domain::fraction},
        {"beta2", 0.999, Domain::fraction},
        {"epsilon", 1e-8, Domain::not_negative}}},
      {"adagrad", make_adagrad, 0.01, {{"epsilon", 1e-7, Domain::not_negative}}},
      {"rmsprop",
       make_rmsprop,
       0.001,
       {{"gamma1", 0.9, Domain::fraction},
        {"epsilon", 1e-8, Domain::not_negative},
        {"centered", 0, Domain::flag},
        {"gamma2", 0.9, Domain::fraction},
        {"clip_weights", 0, Domain::not_negative}}},
      {"lamb",
       make_lamb,
       0.001,
       {{"beta1", 0.9, Domain::fraction},
        {"beta2", 0.999, Domain::fraction},
        {"epsilon", 1e-6, Domain::not_negative},
        {"bias_correction", 1, Domain::flag},
        {"lower_bound", 0, Domain::not_negative},
        {"upper_bound", 0, Domain::not_negative}}},
  };
  return all;
}

const Entry& find(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("optimizer {} is not known{} (known: {}); to use another optimizer, pushpull "
                  "the gradients and update the weights in the program",
                  base::quoted(name), base::suggestion(name, names), fmt::join(names, ", ")));
}

std::vector<Known> known_parameters(const Entry& entry) {
  std::vector<Known> known{{"learning_rate", entry.learning_rate, Domain::not_negative},
                           {"wd", 0, Domain::not_negative},
                           {"rescale_grad", 1, Domain::any},
                           {"clip_gradient", 0, Domain::not_negative},
                           {"multi_precision", 0, Domain::flag}};
  known.insert(known.end(), entry.own.begin(), entry.own.end());
  return known;
}

}  // namespace

Chosen choose(const Optimizer& optimizer) {
  const Entry& entry = find(optimizer.name);
  const Parameters parameters(entry.name, known_parameters(entry), optimizer.parameters);
  return {.rule = entry.make(parameters),
          .learning_rate = parameters["learning_rate"],
          .wd = parameters["wd"],
          .multi_precision = parameters.is_set("multi_precision")};
}

}  // namespace tutti::optimizer
