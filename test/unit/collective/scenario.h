#pragma once
#include <memory>
#include <random>
#include <vector>

#include "../reduce/reference.h"
#include "collective/batch.h"
#include "fake_ends.h"
#include "shm/arena.h"

/// Random batches, the same for all ranks, with the inputs of every rank and what must come out.
struct Scenario {
  struct Tensors {
    std::vector<reference::Bytes> ins;  ///< by device
    std::size_t outs = 0;
    bool in_place = false;
    bool in_arena = false;
    bool hidden = false;           ///< behind ends of their own
    std::size_t misalignment = 0;  ///< bytes, of private tensors
  };
  struct Planned {
    tutti::collective::Batch batch;             ///< parts without addresses
    std::vector<std::vector<Tensors>> tensors;  ///< by rank and part
    std::vector<reference::Bytes> results;      ///< by part; none of an all_to_all
    std::vector<std::size_t> counts;            ///< all_to_all only: by sender and receiver

    /// The batch as this rank has it, still without addresses.
    tutti::collective::Batch batch_at(int rank) const;
    /// The part's result as an output of the rank holds it: its shard, its shares, or everything.
    reference::Bytes result_at(int rank, std::size_t part) const;
    reference::Bytes shares_of(int rank) const;  ///< all_to_all only
  };

  /// The things that may happen in it.
  struct Options {
    std::size_t batches = 1;
    std::size_t most_elements = 1;  ///< of a part
    std::size_t most_parts = 1;
    bool joins = false;           ///< ranks without data
    double in_arenas = 0.3;       ///< share of batches whose tensors all lie in arenas
    double hidden = 0;            ///< share of batches whose tensors lie behind ends of their own
    std::size_t most_inputs = 3;  ///< that a rank has of a part
    /// By rank, the lowest rank on its node. If it is empty, all ranks are on one node. Between
    /// nodes some of the f32 travels in 16 bits.
    std::vector<int> leader_of = {};
  };

  Scenario(std::uint32_t seed, int ranks, const Options& options);

  std::vector<Planned> planned;
};

/// One rank's memory for a scenario, and its batches with addresses.
class Part {
 public:
  /// `ends`: for batches with hidden tensors.
  Part(const Scenario& scenario, int rank, tutti::shm::Arena& arena, FakeEnds* ends = nullptr);
  const std::vector<tutti::collective::Batch>& batches() const { return batches_; }
  /// Throws when an output of this rank differs, or an input has changed.
  void check() const;

 private:
  struct Addresses {
    std::vector<const void*> ins;
    std::vector<void*> outs;
  };
  void* place(const Scenario::Tensors& tensors, std::size_t bytes);

  const Scenario& scenario_;
  const int rank_;
  tutti::shm::Arena& arena_;
  std::vector<std::shared_ptr<void>> memory_;
  std::vector<std::vector<Addresses>> addresses_;  ///< by batch and part
  std::vector<tutti::collective::Batch> batches_;
};
