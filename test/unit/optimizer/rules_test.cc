#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "optimizer/catalogue.h"
#include "other_libraries.h"

using namespace tutti;
using namespace tutti::optimizer;

namespace {

/// Updates many elements by a rule. They repeat the three of the other libraries, so that there are
/// several blocks and a rest.
template <typename T>
class Value {
 public:
  static constexpr std::size_t repeats = 700;

  explicit Value(const Optimizer& optimizer) : chosen_(choose(optimizer)) {
    slots_.resize(chosen_.rule->slots(), std::vector<T>(3 * repeats));
    for (std::size_t i = 0; i < repeats; ++i) append(weight_, first_value);
  }

  void update(const std::array<double, 3>& gradient) {
    std::vector<T> all;
    for (std::size_t i = 0; i < repeats; ++i) append(all, gradient);
    Arrays<T> arrays{.count = weight_.size(), .weight = weight_.data(), .gradient = all.data()};
    for (std::size_t i = 0; i < slots_.size(); ++i) arrays.slots.at(i) = slots_[i].data();
    chosen_.rule->update(
        {.learning_rate = chosen_.learning_rate, .wd = chosen_.wd, .updates = ++updates_}, arrays);
  }

  const std::vector<T>& weight() const { return weight_; }
  /// The largest difference to what each three elements should be.
  double error(const std::array<double, 3>& wanted) const {
    double most = 0;
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(weight_[i]) - wanted.at(i % 3)));
    }
    return most;
  }

 private:
  static void append(std::vector<T>& to, const std::array<double, 3>& values) {
    for (const double value : values) to.push_back(static_cast<T>(value));
  }

  Chosen chosen_;
  std::vector<T> weight_;
  std::vector<std::vector<T>> slots_;
  std::int64_t updates_ = 0;
};

/// A norm over the whole value: more elements, the same ratio of norms.
template <typename T>
void check_courses() {
  for (const Course& course : courses()) {
    CAPTURE(course.library, course.rule, course.parameters);
    Optimizer optimizer{.name = course.rule, .parameters = course.parameters};
    // The bounds limit a norm, which grows with the root of the number of elements.
    for (const char* bound : {"lower_bound", "upper_bound"}) {
      const auto it = optimizer.parameters.find(bound);
      if (it != optimizer.parameters.end()) it->second *= std::sqrt(Value<T>::repeats);
    }
    Value<T> value(optimizer);
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      value.update(gradients.at(step));
      CHECK(value.error(course.values.at(step)) < 1e-6);
    }
  }
}

}  // namespace

TEST_CASE("rules take the steps that MXNet's and PyTorch's take, in f32") {
  check_courses<float>();
}

TEST_CASE("rules take the steps that MXNet's and PyTorch's take, in f64") {
  check_courses<double>();
}

TEST_CASE("every rule is compared with another library's") {
  for (const char* rule : {"sgd", "nag", "adam", "adamw", "adagrad", "rmsprop", "lamb"}) {
    CAPTURE(rule);
    const std::vector<Course> all = courses();
    CHECK(std::any_of(all.begin(), all.end(), [&](const Course& c) { return c.rule == rule; }));
  }
}

TEST_CASE("a gradient that is not a number makes the weight not a number, clipped or not") {
  for (const char* rule : {"sgd", "nag", "adam", "adamw", "adagrad", "rmsprop"}) {
    for (const double bound : {0.0, 0.5}) {
      CAPTURE(rule, bound);
      Value<float> value({.name = rule, .parameters = {{"clip_gradient", bound}}});
      value.update({std::numeric_limits<double>::quiet_NaN(), 1, 1});
      CHECK(std::isnan(value.weight()[0]));
      CHECK(std::isfinite(value.weight()[1]));
    }
  }
}

TEST_CASE("a rule gives the same bits wherever an element stands") {
  for (const char* rule : {"sgd", "nag", "adam", "adamw", "adagrad", "rmsprop", "lamb"}) {
    CAPTURE(rule);
    Value<float> value({.name = rule, .parameters = {{"wd", 0.01}}});
    for (const auto& gradient : gradients) value.update(gradient);
    for (std::size_t i = 3; i < value.weight().size(); ++i) {
      REQUIRE(value.weight()[i] == value.weight()[i % 3]);
    }
  }
}
