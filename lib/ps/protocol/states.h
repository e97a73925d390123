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

/// Cuts the optimizer's state of a value into pieces, and joins the pieces.
namespace tutti::ps {

/// A server's answer to PullState. The answer to PullOptimizer is another one of these.
struct StateOfPiece {
  std::uint32_t piece = 0;
  std::uint32_t pieces = 1;
  std::vector<std::byte> bytes{};  ///< none: there is no state
};

/// The number of elements of the arrays; 0 if there are no arrays.
std::size_t count_of(const optimizer::State& state);

/// The number of bytes of the arrays.
std::size_t bytes_of(const optimizer::State& state);

/// If a piece of a state of this many bytes does not fit into a message, says why. `call` is the
/// name of the method.
std::optional<Failure> objection_to_size(std::string_view call, const Key& key, std::size_t bytes,
                                         std::size_t pieces);

/// The part of a whole value's state that belongs to this piece.
optimizer::State part_of(const optimizer::State& whole, std::uint32_t piece, std::uint32_t pieces);

/// The state with all arrays that the optimizer keeps now. An array may be missing, for example
/// because the value was never updated; then it is taken from the initial state `fresh`. A state of
/// another size or dtype, which may have been loaded, stays unchanged.
optimizer::State completed(optimizer::State state, optimizer::State fresh);

/// Joins the parts, which are ordered by piece and have the same arrays.
optimizer::State whole_of(const std::map<std::uint32_t, optimizer::State>& parts);

/// The optimizer and the states of whole values. Leaves out keys that were never updated.
///
/// In an asynchronous store other workers may update a key meanwhile. Then each piece has the state
/// that was sent, a piece that has not been updated yet has the optimizer's initial state, and the
/// number of updates is the highest of the pieces. Throws `mismatch` if only some pieces of a key
/// have a value, or if the optimizer was changed between two answers.
optimizer::Saved joined(std::span<const StateOfPiece> pieces);

/// The failure for a worker that asks for states although there is no optimizer.
Failure no_optimizer();

/// One state, or only an optimizer, in the form in which it travels.
std::vector<std::byte> packed(const optimizer::Saved& saved);
optimizer::Saved unpacked(std::span<const std::byte> bytes);

}  // namespace tutti::ps
