#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string_view>
#include <vector>

#include "python/arrays.h"
#include "tutti/key.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

namespace tutti::python {

/// The keys and values of one call of a store: one key with its value, or lists of both. A value is
/// one array, or a list of one array for each device. Objects are made and filled with the GIL, and
/// used and destroyed with or without it. The arrays' memory is kept until the library no longer
/// needs it.
class Arguments {
 public:
  /// Throws TypeError for an object that is no key, and InvalidArgumentError for an integer that no
  /// key holds.
  explicit Arguments(nb::handle keys);

  const std::vector<Key>& keys() const { return keys_; }
  /// The arrays behind all values.
  const std::shared_ptr<HeldArrays>& arrays() const { return arrays_; }
  /// Throws the same errors as `to_tensor`, and TypeError unless keys and values are both single or
  /// both lists.
  std::vector<Values> values(nb::handle values, Access access, Elements elements = Elements::added);

 private:
  Values value(nb::handle value, Access access, Elements elements);

  std::vector<Key> keys_;
  bool is_list_;
  std::shared_ptr<HeldArrays> arrays_;
};

/// Throws TypeError for an object that is no key, and `invalid_argument` for an integer that is too
/// large for a key.
Key to_key(nb::handle key);

/// Converts an int of Python or of numpy. Throws TypeError for any other object, and
/// `invalid_argument` for a number that does not fit into the result.
int to_int(std::string_view name, nb::handle value);

/// Converts the name of an op, a str. Throws TypeError for any other object. Throws
/// `invalid_argument` for an unknown name, and lists the names.
ReduceOp to_reduce_op(nb::handle name);

}  // namespace tutti::python
