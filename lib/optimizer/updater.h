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

/// Changes values by an update rule, and keeps the rule's state of each key. For one thread at a
/// time.
class Updater {
 public:
  /// Throws as `choose` does.
  explicit Updater(Optimizer optimizer);

  /// New parameters. The keys' states stay if the rule is the same. Throws as `choose` does; then
  /// nothing has changed.
  void set(Optimizer optimizer);
  const Optimizer& optimizer() const { return optimizer_; }
  /// See `Rule`.
  bool needs_whole() const { return chosen_.rule->needs_whole(); }

  /// Whether it updates values of this type: floats.
  static bool can_update(DType dtype);
  /// Throws `invalid_argument`, naming the key, for values that are not floats, and where the key's
  /// state, which may have been loaded, is of another size or dtype.
  void check(const Key& key, const Tensor& weight) const;
  /// The key has this value now, which no update has made: its master copy begins as it, and a
  /// state of another size or dtype is dropped.
  void take_value(const Key& key, const Tensor& weight);
  /// Changes `weight` by `gradient`, which is like it; both are aligned for their elements and
  /// `check` has passed.
  void update(const Key& key, const Tensor& gradient, const Tensor& weight);

  /// The states of the keys that it has updated or been given.
  const std::map<Key, State>& states() const { return states_; }
  void set_states(std::map<Key, State> states) { states_ = std::move(states); }
  /// The state of such a key before its first update.
  State initial_state(const Tensor& weight) const;

  /// All states, and the optimizer itself if asked for, as bytes for another updater or version.
  std::vector<std::uint8_t> save(bool with_optimizer) const;
  /// Takes the states, and the optimizer if it is there, from what `save` returned. Throws
  /// `invalid_argument` if the bytes are something else or the states another rule's; then nothing
  /// has changed.
  void load(std::span<const std::uint8_t> bytes);
  /// A new updater with the optimizer that is in the bytes. Throws as `load` does, and where there
  /// is none.
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
