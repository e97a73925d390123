#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "optimizer/catalogue.h"
#include "optimizer/state.h"
#include "tutti/key.h"
#include "tutti/optimizer.h"
#include "tutti/tensor.h"

namespace tutti::optimizer {

/// Changes values by an update rule, and keeps the rule's state for each key. Only one thread at a
/// time may use it.
class Updater {
 public:
  /// Throws the same errors as `choose`.
  explicit Updater(Optimizer optimizer);

  /// Sets new parameters. The keys' states stay if the rule is the same. Throws the same errors as
  /// `choose`; then nothing has changed.
  void set(Optimizer optimizer);
  const Optimizer& optimizer() const { return optimizer_; }
  /// See `Rule`.
  bool needs_whole() const { return chosen_.rule->needs_whole(); }

  /// Whether it updates values of this type. It updates floats.
  static bool can_update(DType dtype);
  /// Throws `invalid_argument`, which names the key, for values that are not floats. Throws it,
  /// too, if the key's state, which may have been loaded, has another size or dtype.
  void check(const Key& key, const Tensor& weight) const;
  /// Notes that the key has this value now, and that no update has made it. The key's master copy
  /// begins as this value. A state of another size or dtype is dropped.
  void take_value(const Key& key, const Tensor& weight);
  /// Changes `weight` by `gradient`, which has the same shape and dtype. Both are aligned for their
  /// elements, and `check` has passed.
  void update(const Key& key, const Tensor& gradient, const Tensor& weight);

  /// The states of the keys that it has updated or been given.
  const std::map<Key, State>& states() const { return states_; }
  void set_states(std::map<Key, State> states) { states_ = std::move(states); }
  /// The state of such a key before its first update.
  State initial_state(const Tensor& weight) const;

  /// All states as bytes, for another updater or version. If asked for, also the optimizer itself.
  std::vector<std::uint8_t> save(bool with_optimizer) const;
  /// Takes the states, and the optimizer if it is there, from the bytes that `save` returned.
  /// Throws `invalid_argument` if the bytes are something else, or if the states belong to another
  /// rule. Then nothing has changed.
  void load(std::span<const std::uint8_t> bytes);
  /// A new updater with the optimizer that is in the bytes. Throws the same errors as `load`, also
  /// if there is no optimizer.
  static Updater loaded(std::span<const std::uint8_t> bytes);

 private:
  void complete(State& state, const Tensor& weight) const;
  template <typename T>
  void apply(const Key& key, State& state, std::size_t count, const T* gradient, T* weight);

  Optimizer optimizer_;
  Chosen chosen_;
  std::map<Key, State> states_;
};

}  // namespace tutti::optimizer
