#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tutti::optimizer {

/// The range of a parameter. All values must be finite.
enum class Domain : std::uint8_t { any, not_negative, positive, fraction, flag };

/// A parameter that a rule knows.
struct Known {
  std::string_view name;
  double otherwise;
  Domain range;
};

/// The parameters that every rule has. The learning rate and the decay are not among them, because
/// they differ from key to key.
struct Common {
  double rescale_grad = 1;
  double clip_gradient = 0;  ///< 0: not clipped
};

/// All parameters of a rule: the given ones, and the defaults of the others.
class Parameters {
 public:
  /// Throws `invalid_argument` for a parameter that the rule does not know, and for one that is out
  /// of its range.
  Parameters(std::string_view rule, std::span<const Known> known,
             const std::map<std::string, double>& given);

  double operator[](std::string_view name) const { return values_.find(name)->second; }
  bool is_set(std::string_view name) const { return (*this)[name] != 0; }
  Common common() const {
    return {.rescale_grad = (*this)["rescale_grad"], .clip_gradient = (*this)["clip_gradient"]};
  }

 private:
  std::map<std::string_view, double> values_;
};

}  // namespace tutti::optimizer
