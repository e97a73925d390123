#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "optimizer/saved.h"
#include "ps/protocol/messages.h"

/// Takes the optimizer's state of a value apart into pieces, and puts it together.
namespace tutti::ps {

/// A server's answer to PullState; the answer to PullOptimizer is one more of these.
struct StateOfPiece {
  std::uint32_t piece = 0;
  std::uint32_t pieces = 1;
  std::vector<std::byte> bytes{};  ///< none: there is no state
};

/// The elements of the arrays; 0 where there are none.
std::size_t count_of(const optimizer::State& state);

/// The bytes of the arrays.
std::size_t bytes_of(const optimizer::State& state);

/// Why a piece of a state of so many bytes does not fit a message, if it does not. `call`: the
/// method's name.
std::optional<Failure> objection_to_size(std::string_view call, const Key& key, std::size_t bytes,
                                         std::size_t pieces);

/// This piece's part of a whole value's state.
optimizer::State part_of(const optimizer::State& whole, std::uint32_t piece, std::uint32_t pieces);

/// The state with all arrays that the optimizer keeps now. Takes an array that is missing, for
/// example because the value was never updated, from the initial state `fresh`. A state of another
/// size or dtype, which may have been loaded, stays unchanged.
optimizer::State completed(optimizer::State state, optimizer::State fresh);

/// The whole of parts, which are by piece and have the same arrays.
optimizer::State whole_of(const std::map<std::uint32_t, optimizer::State>& parts);

/// The optimizer and the states of whole values. Leaves out keys that were never updated. In an
/// asynchronous store others may update a key meanwhile. Then each piece has the state that was
/// sent, a piece that has not been updated yet has the optimizer's initial state, and the number of
/// updates is the highest of the pieces. Throws `mismatch` if only some pieces of a key have a
/// value, or if the optimizer was changed between two answers.
optimizer::Saved joined(std::span<const StateOfPiece> pieces);

/// The failure for a worker that asks for states although there is no optimizer.
Failure no_optimizer();

/// One state, or only an optimizer, as it travels.
std::vector<std::byte> packed(const optimizer::Saved& saved);
optimizer::Saved unpacked(std::span<const std::byte> bytes);

}  // namespace tutti::ps
