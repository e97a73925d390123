#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

/// The memory that the ranks of a communicator share, threads and processes alike: a file whose
/// name is their unique id. The last rank that comes removes the name.
namespace standin {

inline constexpr int most_ranks = 8;

/// A part of the data that one rank sends to another, and the operation to which it belongs.
struct Chunk {
  static constexpr std::size_t capacity = 1 << 16;
  std::uint64_t launch;  ///< of the sender, counted from 1
  std::uint32_t kind;
  std::uint32_t bytes;  ///< of this chunk
  std::uint64_t total;
  std::array<std::byte, capacity> data;
};

/// The data from one rank to another.
struct Channel {
  static constexpr std::uint64_t depth = 2;
  std::atomic<std::uint64_t> sent;
  std::atomic<std::uint64_t> received;
  std::array<Chunk, depth> chunks;
};

struct Clique {
  std::atomic<int> joined;
  std::array<std::atomic<std::uint64_t>, most_ranks> places;  ///< each rank's host and device
  std::array<std::atomic<std::uint64_t>, most_ranks> come;    ///< each rank's last launch
  std::atomic<int> error;                                     ///< an ncclResult_t, once struck
  std::atomic<bool> has_text;
  std::array<char, 512> text;
  std::array<std::array<Channel, most_ranks>, most_ranks> channels;  ///< [from][to]

  /// The first error is everyone's.
  void strike(int result, const std::string& said);
};

/// Makes the file; its name.
std::string make_clique();
/// Maps it, or returns null. The mapping stays.
Clique* map_clique(const std::string& name);
void remove_clique(const std::string& name);

}  // namespace standin
