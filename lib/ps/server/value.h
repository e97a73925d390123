#pragma once
#include <optional>
#include <span>
#include <string>

#include "optimizer/updater.h"
#include "ps/durable/archive.h"
#include "ps/server/rules.h"
#include "tutti/shard.h"

namespace tutti::ps {

/// One piece of one value, and the effects of requests on it.
class Value {
 public:
  /// The rules outlive the value.
  Value(PieceName name, const Rules& rules);

  struct Result {
    std::optional<Failure> failure{};
    Tensor
        elements{};  ///< for the workers that want them; nobody changes them while they are shared
    std::size_t delivered = 0;  ///< this many bytes of them are already in the rooms

    bool is_in(const Contribution& said) const {
      return delivered > 0 && said.place.size() >= delivered;
    }
  };
  /// Executes a round: one contribution of each worker, by rank. If they differ, all workers get
  /// the same `mismatch`, and nothing changes.
  Result execute(std::span<const Contribution* const> round);
  /// Executes an asynchronous push.
  Result execute_alone(const Contribution& said);
  Result read(const Pull& pull) const;
  /// Reads the state for a PullState.
  Result read_state() const;

  const Key& key() const { return name_.key; }
  bool is_stored() const { return stored_.has_value(); }
  /// Call this when the rules have another optimizer.
  void take_optimizer();
  /// Replaces the state that the optimizer keeps for this piece. There must be an optimizer.
  void set_state(std::optional<optimizer::State> state);

  /// The part of a value that outlives the job.
  struct Content {
    Shape shape;      ///< of the whole value
    Tensor elements;  ///< of this piece
    std::optional<optimizer::State> state{};
  };
  std::optional<Content> content() const;
  /// Takes over the content of an earlier job. The next init leaves it as it is.
  void inherit(Content content);
  void save(ArchiveWriter& to) const;
  /// Loads the value. The rules must already have the optimizer.
  void load(ArchiveReader& from);

  /// The elements that this piece has of a value of this shape.
  Shard piece_of(const Shape& shape) const;

 private:
  struct Stored {
    Shape shape;      ///< of the whole value
    Tensor elements;  ///< of this piece
    DType dtype() const { return elements.dtype(); }
  };

  Result initialise(const Contribution& said);
  Result store(const Contribution& said);
  Result push(std::span<const Contribution* const> contributions);
  Result read_rows(const Pull& pull) const;
  void stop_sharing();
  void merge(std::span<const Contribution* const> contributions, std::span<void*> outs) const;
  Result sum(std::span<const Contribution* const> contributions);
  std::optional<Failure> disagreement(std::span<const Contribution* const> round) const;
  std::optional<Failure> objection(const Contribution& said) const;
  std::optional<Failure> objection_of_updater() const;
  Failure refusal(std::string_view call, const std::string& text) const;

  const PieceName name_;
  const Rules& rules_;
  std::optional<Stored> stored_;
  bool is_inherited_ = false;  ///< whether it comes from an earlier job and no init has come for it
  std::optional<optimizer::Updater> updater_;
};

}  // namespace tutti::ps
